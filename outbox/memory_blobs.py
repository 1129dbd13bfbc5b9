"""The blobs of the memory store; only their files are on a disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from outbox.blob_files import BlobFiles
from outbox.blobs import REASON_CHARS_MAX as BODY_REASON_CHARS_MAX
from outbox.blobs import DeadBlob, MarkLost
from outbox.memory_state import PARKED_AT, KeptBlob, Key, State
from outbox.record import NewBlob, Record
from outbox.store import REASON_CHARS_MAX, Settlement
from outbox.verdict import Verdict


class MemoryBlobs:
    """``Blobs`` of one memory store."""

    def __init__(self, state: Callable[[], State], files: BlobFiles | None, mark_lost: MarkLost) -> None:
        self._state, self._files, self._mark_lost = state, files, mark_lost
        self._tell: Callable[[], None] | None = None
        self._leases: dict[str, int] = {}
        self._lease = 0

    def path_of(self, sha256: str) -> Path:
        assert self._files is not None, "a store without a folder has no blobs"
        return self._files.path_of(sha256)

    def when_freed(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    async def claim(self, *, now: datetime, limit: int, bytes_max: int) -> list[Record]:
        self._lease += 1
        due = [
            (blob.due_at, blob.rowid, sha256, blob)
            for sha256, blob in self._state().blobs.items()
            if blob.due_at is not None and blob.due_at <= now and sha256 not in self._leases
        ]
        chosen = sorted(due)[:limit]
        self._leases.update((sha256, self._lease) for _, _, sha256, _ in chosen)
        return [
            Record(
                rowid=blob.rowid,
                id=sha256,
                body=b"",
                label=blob.mime,
                attempts=blob.attempts,
                created_at=blob.created_at,
                lease=self._lease,
            )
            for _, _, sha256, blob in chosen
        ]

    def still_held(self, record: Record) -> bool:
        return self._leases.get(record.id) == record.lease

    def _unlease(self, rowid: int, lease: int) -> str | None:
        for sha256, blob in self._state().blobs.items():
            if blob.rowid == rowid and self._leases.get(sha256) == lease:
                del self._leases[sha256]
                return sha256
        return None

    async def settle(self, settlements: Sequence[Settlement]) -> int:
        ended = 0
        for s in settlements:
            sha256 = self._unlease(s.rowid, s.lease)
            if sha256 is not None:
                ended += 1
                self._settle_one(sha256, s)
        return ended

    def _settle_one(self, sha256: str, s: Settlement) -> None:
        state = self._state()
        blob, reason = state.blobs[sha256], s.reason[:REASON_CHARS_MAX]
        match s.verdict:
            case Verdict.HALT:
                return
            case Verdict.RETRY:
                state.blobs[sha256] = replace(
                    blob,
                    due_at=s.due_at or s.now,
                    attempts=blob.attempts + s.spent,
                    status=s.status,
                    reason=reason,
                )
                return
            case Verdict.DELIVERED:
                state.blobs[sha256] = replace(blob, due_at=None, status=None, reason="")
            case Verdict.DEAD:
                state.blobs[sha256] = replace(
                    blob,
                    due_at=None,
                    attempts=blob.attempts + 1,
                    status=s.status,
                    reason=reason,
                    died_at=s.now,
                )
        self._free(state, sha256)
        self._forget_unneeded([sha256])

    def _free(self, state: State, sha256: str) -> None:
        blob = state.blobs[sha256]
        waiting = [key for key, refs in state.refs.items() if refs.get(sha256)]
        for key in waiting:
            refs, rowid = state.refs[key], state.keys[key]
            if blob.died_at is not None:
                del refs[sha256]
                body = self._mark_lost(state.rows[rowid].body, sha256, blob.reason[:BODY_REASON_CHARS_MAX])
                state.rows[rowid] = replace(state.rows[rowid], body=body)
            else:
                refs[sha256] = False
            if not any(refs.values()) and state.rows[rowid].at == PARKED_AT:
                state.rows[rowid] = replace(state.rows[rowid], at=state.clock.now())
        if waiting and self._tell is not None:
            self._tell()

    async def release(self, records: Sequence[Record]) -> int:
        return sum(self._unlease(record.rowid, record.lease) is not None for record in records)

    async def next_due(self) -> datetime | None:
        free = [blob for sha256, blob in self._state().blobs.items() if sha256 not in self._leases]
        return min((blob.due_at for blob in free if blob.due_at is not None), default=None)

    async def dead_list(self, *, limit: int, after: int = 0) -> list[DeadBlob]:
        dead = [self._dead_blob(sha256, blob) for sha256, blob in self._dead(None)]
        return sorted((d for d in dead if d.rowid > after), key=lambda d: d.rowid)[:limit]

    def _dead(self, sha256s: Sequence[str] | None) -> list[tuple[str, KeptBlob]]:
        blobs = self._state().blobs.items()
        dead = [(sha256, blob) for sha256, blob in blobs if blob.died_at is not None]
        return [(sha256, blob) for sha256, blob in dead if sha256s is None or sha256 in sha256s]

    @staticmethod
    def _dead_blob(sha256: str, blob: KeptBlob) -> DeadBlob:
        assert blob.died_at is not None
        return DeadBlob(
            rowid=blob.rowid,
            sha256=sha256,
            bytes=blob.bytes,
            mime=blob.mime,
            status=blob.status,
            reason=blob.reason,
            attempts=blob.attempts,
            created_at=blob.created_at,
            died_at=blob.died_at,
        )

    async def dead_requeue(self, sha256s: Sequence[str] | None) -> int:
        chosen = self._dead(sha256s)
        for sha256, _ in chosen:
            self._state().again(sha256)
        return len(chosen)

    async def dead_drop(self, sha256s: Sequence[str] | None) -> int:
        state, chosen = self._state(), self._dead(sha256s)
        for sha256, _ in chosen:
            del state.blobs[sha256]
            for refs in state.refs.values():
                refs.pop(sha256, None)
        self.drop_files(sha256 for sha256, _ in chosen)
        return len(chosen)

    # what the store's own methods need

    def of_record(self, key: Key) -> tuple[NewBlob, ...]:
        """What a record refers to, with the store's own files."""
        state = self._state()
        return tuple(
            NewBlob(
                sha256=sha256,
                bytes=state.blobs[sha256].bytes,
                mime=state.blobs[sha256].mime,
                path=self.path_of(sha256),
            )
            for sha256 in state.refs.get(key, {})
        )

    def unrefer(self, key: Key) -> None:
        """The record is delivered or forgotten; so is what only it needed."""
        self._forget_unneeded(self._state().refs.pop(key, {}))

    def _forget_unneeded(self, sha256s: Iterable[str]) -> None:
        state = self._state()
        for sha256 in sha256s:
            blob = state.blobs[sha256]
            is_delivered = blob.due_at is None and blob.died_at is None
            if is_delivered and not any(sha256 in refs for refs in state.refs.values()):
                del state.blobs[sha256]
                self.drop_files([sha256])

    def drop_files(self, sha256s: Iterable[str]) -> None:
        """Remove those files that the store does not know."""
        if self._files is not None:
            self._files.drop(sha256 for sha256 in sha256s if sha256 not in self._state().blobs)
