"""Bodies cut in memory, and the facts of such a body, to be compared with those of the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from contracts.base64text import Cut
from contracts.blobcutter import BlobCutter, put_back
from contracts.gateways.blobplaces import BLOB_MEMBERS
from contracts.standing import PutBack
from contracts.translation import Arrival, Keep, Kept, Rules, Translation, translate

NONCE = "0123456789abcdef" * 2
LOW = 8


@dataclass(kw_only=True)
class Result:
    """A body that was cut: the skeleton, the cuts and what their sinks got."""

    skeleton: bytes
    cuts: list[Cut]
    data: dict[bytes, bytes]

    def text(self, cut: Cut) -> bytes:
        data = self.data[cut.mark]
        return b"".join(cut.text([data[:1], data[1:7], data[7:]]))

    def put_back(self, cuts: Iterable[Cut], skeleton: bytes | None = None) -> bytes:
        def texts(cut: Cut) -> Callable[[], list[bytes]]:
            return lambda: [self.text(cut)]

        raw = self.skeleton if skeleton is None else skeleton
        return put_back(raw, {cut.mark: texts(cut) for cut in cuts})

    @property
    def settled(self) -> tuple[bytes, list[Cut]]:
        """As a door uses it: what was not cut as a whole is text again."""
        return self.put_back(cut for cut in self.cuts if not cut.complete), [
            cut for cut in self.cuts if cut.complete
        ]


@dataclass(kw_only=True)
class Sinks:
    data: dict[bytes, bytearray] = field(default_factory=dict)

    def open(self, mark: bytes) -> Callable[[bytes], object]:
        assert mark not in self.data
        self.data[mark] = bytearray()
        return self.data[mark].extend


def cut(chunks: Iterable[bytes], *, key: str = "base64", chars_min: int = LOW, cuts_max: int = 50) -> Result:
    sinks = Sinks()
    cutter = BlobCutter(key=key, nonce=NONCE, chars_min=chars_min, cuts_max=cuts_max, open_sink=sinks.open)
    skeleton = b"".join([*(cutter.feed(chunk) for chunk in chunks), cutter.finish()])
    return Result(
        skeleton=skeleton,
        cuts=cutter.cuts,
        data={mark: bytes(data) for mark, data in sinks.data.items()},
    )


def chunked(raw: bytes, sizes: list[int]) -> list[bytes]:
    chunks: list[bytes] = []
    for size in sizes:
        chunks.append(raw[:size])
        raw = raw[size:]
    return [*chunks, raw]


def translate_cut(
    whole: Arrival, rules: Rules, keep: Keep[Kept], chars_min: int = 1
) -> tuple[Translation[Kept], Result]:
    """The facts of a body out of which all was cut that may be, and what was put back where it had to."""
    member = BLOB_MEMBERS.get(whole.gateway.family)
    if member is None:
        return translate(whole, rules, keep), cut([whole.raw])
    result = cut([whole.raw], key=member, chars_min=chars_min)
    arrival = replace(whole, raw=result.skeleton, cuts=tuple(result.cuts))
    while True:
        try:
            return translate(arrival, rules, keep), result
        except PutBack as needed:
            left = tuple(cut for cut in arrival.cuts if cut not in needed.cuts)
            arrival = replace(arrival, raw=result.put_back(needed.cuts, arrival.raw), cuts=left)
