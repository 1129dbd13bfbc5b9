"""Cuts long base64 out of a JSON body while it is read, chunk by chunk, without holding it (contract §7).

The text of a member of one name is decoded into a sink as it comes; in the rest, the *skeleton*, a mark
stands for it. Marks hold a nonce, so no sender can write one. The cutter finds the member's name and the
quotes with ``bytes.find`` and knows nothing of the JSON around them: whether a cut stands where a gateway
puts bytes is seen in the decoded skeleton. A text that is no base64 to its end was cut in part; that, and
what stands in the wrong place, is put back byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from contracts.base64text import Base64Text, Cut, Sink

PREFIX_BYTES_MAX: Final = 256
"""How far a ``data:`` prefix is looked for."""

_PREFIX: Final = re.compile(rb'data:[^"\x00-\x1f]{0,200};base64,')
_COLON: Final = re.compile(rb'[ \t\r\n]{0,64}+:[ \t\r\n]{0,64}+"')
_COLON_BEGUN: Final = re.compile(rb"[ \t\r\n]{0,64}+(?::[ \t\r\n]{0,64}+)?\Z")
_ALPHABET: Final = re.compile(rb"(?:[A-Za-z0-9+/_=-]++|\\/)*+\\?")


class BlobCutter:
    """Takes a body chunk by chunk and gives back its skeleton; equal for every way of chunking it."""

    def __init__(
        self, *, key: str, nonce: str, chars_min: int, cuts_max: int, open_sink: Callable[[bytes], Sink]
    ) -> None:
        """``key``: the member whose texts of ``chars_min`` characters and more are cut, at most ``cuts_max``.

        ``nonce``: 32 random hex digits. ``open_sink`` is called with the mark of each cut that gets bytes.
        """
        self._key, self._nonce = b'"' + key.encode("ascii") + b'"', nonce.encode("ascii")
        self._chars_min, self._cuts_left, self._open_sink = chars_min, cuts_max, open_sink
        self._window = max(chars_min, PREFIX_BYTES_MAX)
        self._fed = 0
        self._at = 0
        """Where in the body the data begin that are looked at."""
        self._held = b""
        self._is_lead = False
        """What is held begins a text that may be long enough."""
        self._text: Base64Text | None = None
        self.cuts: list[Cut] = []

    def feed(self, chunk: bytes) -> bytes:
        """Return what is certain of the skeleton by now."""
        return b"".join(self._steps(chunk))

    def finish(self) -> bytes:
        """Return the rest of the skeleton: the body is complete, or broken off."""
        rest = b"".join(self._give_up()) if self._text is not None else b""
        rest += self._held
        self._held = b""
        return rest

    def _steps(self, chunk: bytes) -> Iterator[bytes]:
        data = self._held + chunk if self._held else chunk
        self._fed += len(chunk)
        self._at = self._fed - len(data)
        self._held = b""
        step: bytes | None = data
        while step is not None:
            before = len(step)
            if self._text is not None:
                out, step = self._inside(step)
            elif self._is_lead:
                out, step = self._lead(step)
            else:
                out, step = self._outside(step)
            self._at += before - len(step or b"")
            yield out

    def _outside(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Pass on up to the text of the next member of that name."""
        start = data.find(self._key)
        while start >= 0:
            end = start + len(self._key)
            colon = _COLON.match(data, end)
            if colon is not None:
                self._is_lead = True
                return data[: colon.end()], data[colon.end() :]
            if _COLON_BEGUN.match(data, end):
                return self._hold(data, start)
            start = data.find(self._key, end - 1)
        return self._hold(data, max(0, len(data) - len(self._key) + 1))

    def _lead(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Wait until a text is long enough to be cut, or turns out to be short."""
        quote = data.find(b'"', 0, self._window)
        if quote < 0 and len(data) < self._window:
            self._held = data
            return b"", None
        self._is_lead = False
        prefix = _PREFIX.match(data, 0, PREFIX_BYTES_MAX)
        head = prefix[0] if prefix else b""
        if (
            0 <= quote < self._chars_min
            or not self._cuts_left
            or not _ALPHABET.fullmatch(data, len(head), max(len(head), self._chars_min))
        ):
            end = self._window if quote < 0 else quote
            return data[:end], data[end:]
        self._cuts_left -= 1
        mark = b"$blob:%s:%012d" % (self._nonce, self._at)
        self._text = Base64Text(mark, head, self._open_sink)
        return b"", data[len(head) :]

    def _inside(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Decode up to the quote that ends the text."""
        assert self._text is not None
        quote = data.find(b'"')
        text = data if quote < 0 else data[:quote]
        if quote < 0 and text.endswith(b"\\"):
            self._held, text = b"\\", text[:-1]
        if not self._text.take(text):
            self._held = b""
            return b"".join(self._give_up()), data
        if quote < 0:
            return b"", None
        cut = self._text.end()
        if cut is None:
            return b"".join(self._give_up()), data[quote:]
        self._text = None
        self.cuts.append(cut)
        return cut.mark, data[quote:]

    def _give_up(self) -> Iterator[bytes]:
        assert self._text is not None
        cut, rest = self._text.give_up()
        self._text = None
        if cut is not None:
            self.cuts.append(cut)
            yield cut.mark
        yield rest

    def _hold(self, data: bytes, start: int) -> tuple[bytes, bytes | None]:
        self._held = data[start:]
        return data[:start], None


def put_back(skeleton: bytes, texts: Mapping[bytes, Callable[[], Iterable[bytes]]]) -> bytes:
    """Return the skeleton with the texts of some marks in their places."""
    if not texts:
        return skeleton
    marks = re.compile(b"|".join(map(re.escape, texts)))
    pieces: list[bytes] = []
    done = 0
    for found in marks.finditer(skeleton):
        pieces.append(skeleton[done : found.start()])
        pieces += texts[found[0]]()
        done = found.end()
    return b"".join((*pieces, skeleton[done:]))
