"""The port to the blobs of a store: large bytes kept as files, each a record of its own, in its own queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from outbox.store import Claiming

MarkLost: TypeAlias = "Callable[[bytes, str, str], bytes]"
"""Takes a record's body, the sha256 of a blob that will not come, and why; returns the body that says so.

Must not raise.
"""

FREED_PER_CALL_MAX: Final = 100
"""Records that one transaction frees of a blob, so that a put never waits long."""
REASON_CHARS_MAX: Final = 200
"""Characters of a reason that go into a body."""


def unmarked(body: bytes, _sha256: str, _reason: str) -> bytes:
    """For stores whose bodies say nothing of blobs."""
    return body


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadBlob:
    """A blob that the other side refused for good; its file is kept."""

    rowid: int
    sha256: str
    bytes: int
    mime: str
    status: int | None
    reason: str
    attempts: int
    created_at: datetime
    died_at: datetime


class Blobs(Claiming, Protocol):
    """What waits to be uploaded. A claimed record has the sha256 as its id, the mime type as its label.

    A blob that is delivered frees the records that wait for it; one that is dead frees them too, marked
    lost. Its file goes when it is delivered and no waiting or dead record refers to it.
    """

    def path_of(self, sha256: str) -> Path:
        """Where its file is."""
        ...

    def when_freed(self, tell: Callable[[], None]) -> None:
        """``tell`` is called whenever records were freed: they are due now."""
        ...

    async def dead_list(self, *, limit: int, after: int = 0) -> list[DeadBlob]:
        """Dead blobs in the order of their rowids, above ``after``."""
        ...

    async def dead_requeue(self, sha256s: Sequence[str] | None) -> int:
        """Back into the queue, due now, attempts 0. None means all. Records that left as lost stay so."""
        ...

    async def dead_drop(self, sha256s: Sequence[str] | None) -> int:
        """Forget for good, with the files. None means all."""
        ...
