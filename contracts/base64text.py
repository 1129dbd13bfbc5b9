"""One base64 text of a body, decoded piece by piece in the spelling that it has, and written again from it.

Spellings that gateways use: the standard or the URL alphabet, slashes plain or escaped, any padding, a
``data:`` prefix. White space, mixed spellings and other escapes are none.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from contracts.binary import field_bytes

Sink: TypeAlias = "Callable[[bytes], object]"
"""Is given the bytes of one cut, piece by piece, in order."""

_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_QUAD: Final = 4
_TRIPLE: Final = 3


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """One text that a mark stands for: what its bytes are, and how it was spelled."""

    mark: bytes
    sha256: str
    bytes_total: int
    prefix: bytes
    is_url: bool
    """The URL alphabet."""
    escapes_slash: bool
    tail: bytes
    """The text behind the last whole group of four, with its padding."""
    tail_bytes: int
    """How many of the bytes ``tail`` stands for."""
    complete: bool
    """False when the text went on in another spelling: it has to be put back."""

    @property
    def text_bytes(self) -> int:
        """How long the text is, at most."""
        quads = (self.bytes_total - self.tail_bytes) // _TRIPLE * _QUAD
        return len(self.prefix) + quads * (2 if self.escapes_slash else 1) + len(self.tail)

    def text(self, data: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the text as it was; ``data`` are the bytes that the sink was given, in pieces of any size."""
        yield self.prefix
        left = self.bytes_total - self.tail_bytes
        rest = b""
        for piece in data:
            rest += piece[: left - len(rest)]
            whole = len(rest) - len(rest) % _TRIPLE
            yield self._spelled(base64.b64encode(rest[:whole]))
            rest = rest[whole:]
            left -= whole
        assert left == 0, "the sink's bytes are not those that were cut"
        yield self.tail

    def _spelled(self, text: bytes) -> bytes:
        if self.is_url:
            return text.translate(_TO_URL)
        return text.replace(b"/", b"\\/") if self.escapes_slash else text


class Base64Text:
    """One text that is being cut."""

    __slots__ = (
        "_is_url",
        "_open_sink",
        "_slash",
        "_write",
        "bytes_total",
        "carry",
        "digest",
        "mark",
        "prefix",
    )

    def __init__(self, mark: bytes, prefix: bytes, open_sink: Callable[[bytes], Sink]) -> None:
        self.mark, self.prefix, self._open_sink = mark, prefix, open_sink
        self._write: Sink | None = None
        self.carry = b""
        """Plain text that is not decoded yet: one to four characters, or none."""
        self.bytes_total = 0
        self.digest = hashlib.sha256()
        self._is_url: bool | None = None
        self._slash: bytes | None = None

    def take(self, text: bytes) -> bool:
        """Decode more of it; False when that is another spelling, then nothing of it was taken."""
        spelling = self._is_url, self._slash
        plain = self._plain(text)
        if plain is not None:
            text = self.carry + plain
            whole = max(0, len(text) - 1) // _QUAD * _QUAD
            data = _decoded(text[:whole])
            if data is not None:
                self.carry = text[whole:]
                self._put(data)
                return True
        self._is_url, self._slash = spelling
        return False

    def end(self) -> Cut | None:
        """Decode the tail; None when it is no end of base64."""
        data = field_bytes(self.carry.decode("latin-1"))
        if data is None or not (self.bytes_total or data):
            return None
        self._put(data)
        return self.cut(tail=self._spelled_carry(), tail_bytes=len(data), complete=True)

    def give_up(self) -> tuple[Cut | None, bytes]:
        """What was cut of it so far (None: nothing), and the text behind it that was taken but not cut."""
        if not self.bytes_total:
            return None, self.prefix + self._spelled_carry()
        return self.cut(tail=b"", tail_bytes=0, complete=False), self._spelled_carry()

    def cut(self, *, tail: bytes, tail_bytes: int, complete: bool) -> Cut:
        return Cut(
            mark=self.mark,
            sha256=self.digest.hexdigest(),
            bytes_total=self.bytes_total,
            prefix=self.prefix,
            is_url=bool(self._is_url),
            escapes_slash=self._slash == b"\\/",
            tail=tail,
            tail_bytes=tail_bytes,
            complete=complete,
        )

    def _plain(self, text: bytes) -> bytes | None:
        """The text in the standard alphabet without escapes; None when it mixes spellings."""
        if b"/" in text:
            slash = b"\\/" if b"\\" in text else b"/"
            if self._slash not in (None, slash) or text.count(b"/") != text.count(slash):
                return None
            self._slash = slash
            text = text.replace(b"\\/", b"/")
        if b"\\" in text:
            return None
        is_url, is_standard = b"-" in text or b"_" in text, b"+" in text or b"/" in text
        if is_url or is_standard:
            if (is_url and is_standard) or self._is_url not in (None, is_url):
                return None
            self._is_url = is_url
        return text.translate(_FROM_URL) if is_url else text

    def _spelled_carry(self) -> bytes:
        if self._is_url:
            return self.carry.translate(_TO_URL)
        return self.carry.replace(b"/", b"\\/") if self._slash == b"\\/" else self.carry

    def _put(self, data: bytes) -> None:
        if not data:
            return
        if self._write is None:
            self._write = self._open_sink(self.mark)
        self._write(data)
        self.digest.update(data)
        self.bytes_total += len(data)


def _decoded(text: bytes) -> bytes | None:
    """The bytes of whole groups of four without padding; None for anything else."""
    if b"=" in text:
        return None
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return None
