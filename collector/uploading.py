"""Uploads a blob in signed parts, and goes on where the backend says that it has ended (contract, Blobs)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from collector.backend import Backend, Reply
from collector.shipping import read_answer
from contracts.blob_upload import (
    PART_BYTES_MAX,
    RANGE_HEADER,
    BlobReceipt,
    PartRange,
    blob_path,
    signed_text,
)
from contracts.blobs import blob_event_id, clean_mime
from outbox.blobs import Blobs
from outbox.record import Record
from outbox.transport import Answer, RecordReceipt
from outbox.verdict import TransportFailure

PART_BYTES_FIRST: Final = 1024 * 1024
PART_BYTES_MIN: Final = 64 * 1024
QUICK_S: Final = 2.0
"""A part that takes less makes the next one larger: few requests where the way is fast."""
STALLED_MAX: Final = 8
"""Answers in a row that name no later place than one before them; then it is tried again from the start."""
UNKNOWN_TYPE: Final = "application/octet-stream"
STATUS_TOO_LARGE: Final = 413
STATUS_DAMAGED: Final = 422
"""What the backend would say of bytes that are not those of their name."""

_decode: Final = msgspec.json.Decoder(BlobReceipt).decode


def next_part_bytes(size: int, took_s: float | None) -> int:
    """The size of the next part: twice as large after a quick one, half after one that was too slow (None).

    A part must arrive within the request's time limit also over a thin line, where 8 MiB never would.
    """
    if took_s is None:
        return max(size // 2, PART_BYTES_MIN)
    return min(size * 2, PART_BYTES_MAX) if took_s < QUICK_S else size


class BlobTransport:
    """The engine's ``Transport`` of blobs: a record is one blob, its id the sha256, its label the type."""

    def __init__(self, backend: Backend, blobs: Blobs) -> None:
        self._backend, self._blobs = backend, blobs
        self._part_bytes = PART_BYTES_FIRST
        self._part_bytes_max = PART_BYTES_MAX

    async def send(self, records: Sequence[Record]) -> Answer:
        """Upload one blob to its end. Never raises for what the network, the backend or its file does."""
        (record,) = records
        try:
            file = await asyncio.to_thread(_open, self._blobs.path_of(record.id))
        except FileNotFoundError:
            return _damaged("the collector's file of it is gone")
        except OSError as error:
            return Answer(status=TransportFailure.OTHER, reason=f"file: {error.strerror}")
        try:
            return await self._upload(record, file, os.fstat(file.fileno()).st_size)
        finally:
            file.close()

    async def _upload(self, record: Record, file: BinaryIO, total: int) -> Answer:
        if not total:
            return _damaged("the collector's file of it is empty")
        part = PartRange(first=0, size=0, total=total)
        furthest, stalled = -1, 0
        while stalled < STALLED_MAX:
            try:
                body = await asyncio.to_thread(_read, file, part)
            except OSError as error:
                return Answer(status=TransportFailure.OTHER, reason=f"file: {error.strerror}")
            reply = await self._put(record, part, body)
            narrowed = self._narrowed(part, reply)
            if narrowed is not None:
                part = narrowed
                continue
            receipt = None if isinstance(reply, TransportFailure) else _receipt(reply, record.id)
            if receipt is None:
                return _answer(reply)
            if receipt.status != "partial":
                done = RecordReceipt(status=receipt.status)
                return Answer(status=200, receipts={record.id: done})
            offset = receipt.offset or 0
            stalled = 0 if offset > furthest else stalled + 1
            furthest = max(furthest, offset)
            # All bytes may be there although it was not kept: the last one, sent again, says so.
            first = min(offset, total - 1)
            part = PartRange(first=first, size=min(self._part_bytes, total - first), total=total)
        return Answer(status=TransportFailure.OTHER, reason="the upload does not come forward")

    async def _put(self, record: Record, part: PartRange, body: bytes) -> Reply | TransportFailure:
        # An earlier release, or an import, may have kept a type that no header can hold.
        mime, place = clean_mime(record.label) or UNKNOWN_TYPE, str(part)
        hashed = await asyncio.to_thread(hashlib.sha256, body)
        started_s = time.monotonic()
        reply = await self._backend.send(
            "PUT",
            blob_path(record.id),
            event_id=blob_event_id(record.id),
            signed=signed_text("PUT", record.id, place, mime, hashed.hexdigest()),
            body=body,
            headers={"Content-Type": mime, RANGE_HEADER: place},
        )
        if reply in (TransportFailure.TIMEOUT, TransportFailure.WRITE):
            self._part_bytes = next_part_bytes(self._part_bytes, None)
        elif part.size == self._part_bytes:
            quick = next_part_bytes(self._part_bytes, time.monotonic() - started_s)
            self._part_bytes = min(quick, self._part_bytes_max)
        return reply

    def _narrowed(self, part: PartRange, reply: Reply | TransportFailure) -> PartRange | None:
        """Half of the part, when a proxy finds it too large (nginx: 1 MiB unless told otherwise); else None.

        No later part is larger than that. What is too small to be halved is answered as a halt.
        """
        if isinstance(reply, TransportFailure) or reply.status != STATUS_TOO_LARGE:
            return None
        if part.size <= PART_BYTES_MIN or read_answer(reply, set()).too_large:
            return None
        self._part_bytes = self._part_bytes_max = max(part.size // 2, PART_BYTES_MIN)
        return replace(part, size=self._part_bytes)


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


def _read(file: BinaryIO, part: PartRange) -> bytes:
    return os.pread(file.fileno(), part.size, part.first)


def _receipt(reply: Reply, sha256: str) -> BlobReceipt | None:
    """The backend's word on this blob; None for anything else, whatever its status."""
    if not 200 <= reply.status < 300:
        return None
    try:
        receipt = _decode(reply.body)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return receipt if receipt.sha256 == sha256 else None


def _answer(reply: Reply | TransportFailure) -> Answer:
    if isinstance(reply, TransportFailure):
        return Answer(status=reply, reason=reply.value)
    return read_answer(reply, set())


def _damaged(reason: str) -> Answer:
    return Answer(status=STATUS_DAMAGED, reason=reason)
