"""Blobs that are brought along with their records: copied into the spool, compared, then put with them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from outbox.kept import KeptRecord
from outbox.record import NewBlob


@contextlib.asynccontextmanager
async def bringing(
    records: Sequence[KeptRecord], folder: Path, spool: Path
) -> AsyncIterator[tuple[list[KeptRecord], int]]:
    """The records with those of their blobs whose bytes are in ``folder``, and how many are not.

    Copies that the store has not taken over are gone behind the block. Raises OSError when ``spool`` cannot
    be written.
    """
    found: dict[str, NewBlob] = {}
    missing: set[str] = set()
    try:
        for blob in (blob for record in records for blob in record.blobs):
            if blob.sha256 not in found and blob.sha256 not in missing:
                copy = await asyncio.to_thread(_copy, blob, folder, spool)
                if copy is None:
                    missing.add(blob.sha256)
                else:
                    found[blob.sha256] = replace(blob, path=copy)
        brought = [
            replace(record, blobs=tuple(found[blob.sha256] for blob in record.blobs if blob.sha256 in found))
            for record in records
        ]
        yield brought, len(missing)
    finally:
        for blob in found.values():
            blob.path.unlink(missing_ok=True)


def _copy(blob: NewBlob, folder: Path, spool: Path) -> Path | None:
    """None when the bytes are not there, or are others."""
    source = folder / blob.sha256
    if not source.is_file():
        return None
    spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = spool / f"import-{secrets.token_hex(8)}"
    try:
        shutil.copyfile(source, copy)
        with copy.open("rb") as file:
            is_right = hashlib.file_digest(file, "sha256").hexdigest() == blob.sha256
        is_right = is_right and copy.stat().st_size == blob.bytes
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
    if not is_right:
        copy.unlink()
        return None
    return copy
