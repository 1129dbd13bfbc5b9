"""The blob store as an operator meets it: one blob fetched and compared, and whether it can be written."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

from contracts.blobs import is_sha256
from ingest.blob_store import BlobStore, open_blob_store
from ingest.blobs import KEPT_NAME
from ingest.config import ConfigError
from ingest.row import UnavailableError
from zaplake.finding import Finding
from zaplake.settings import Settings
from zaplake.trouble import Trouble, UsageTrouble
from zaplake.wiring import BLOB_FOLDER, blob_folder

NEXT_STEP = "check ingest.blob_store_url and the credentials in the environment, or the disk"


async def fetch(settings: Settings, sha256: str, out: Path) -> int:
    """Writes the bytes to ``out``, which appears when their hash is right; returns how many.

    Raises UsageTrouble when ``out`` is there already, Trouble when the store has no such blob, is away or
    holds other bytes.
    """
    if not is_sha256(sha256):
        raise UsageTrouble(f"{sha256!r} is no sha256", "64 hex digits in lower case; see lake.blob_refs")
    if await asyncio.to_thread(out.exists):
        raise UsageTrouble(f"there is already a file {out}", "name another")
    draft = out.with_name(f"{out.name}.part")
    try:
        digest, size = hashlib.sha256(), 0
        with draft.open("wb") as file:
            async for chunk in _store(settings).read(sha256):
                digest.update(chunk)
                size += file.write(chunk)
        if digest.hexdigest() != sha256:
            raise Trouble("the store holds other bytes under this name", "look at its disk or bucket")
        os.link(draft, out)  # unlike a rename, it never replaces what came meanwhile
    except FileNotFoundError as error:
        raise Trouble(
            f"there is no blob {sha256}", "was it lost? select * from lake.blob_refs where sha256 = …"
        ) from error
    except UnavailableError as error:
        raise Trouble(str(error), NEXT_STEP) from error
    except OSError as error:
        raise Trouble(f"cannot write {out}: {error.strerror or error}", "name another place") from error
    finally:
        draft.unlink(missing_ok=True)
    return size


async def is_writable(settings: Settings) -> Finding:
    """For doctor: writes an object and removes it again."""
    where = settings.ingest.blob_store_url or f"the folder {BLOB_FOLDER} of the data folder"
    if not settings.ingest.blob_store_url and not blob_folder(settings).is_dir():
        return Finding(what="no blob store yet: the backend makes it when it starts")
    try:
        await _store(settings).probe()
    except Trouble as trouble:
        return Finding(what=trouble.what, next_step=trouble.next_step)
    except UnavailableError as error:
        return Finding(what=f"the blob store, {where}, cannot be written: {error}", next_step=NEXT_STEP)
    return Finding(what=f"blob store: {where} can be written")


def _store(settings: Settings) -> BlobStore:
    folder = blob_folder(settings) / KEPT_NAME
    if not (settings.ingest.blob_store_url or folder.is_dir()):
        raise Trouble(f"there are no blobs in {folder}", "is --data-dir right? The backend makes the folder")
    try:
        return open_blob_store(settings.ingest.blob_store_url, folder)
    except ConfigError as error:
        raise Trouble(f"settings: ingest.{error}", "see docs/settings.md") from error
    except OSError as error:
        raise Trouble(f"{folder}: {error.strerror or error}", "free the disk, or set data_dir") from error
