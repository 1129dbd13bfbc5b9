"""Where blobs are kept: a folder of ours, or a bucket by its URL. What was kept is durable."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store, from_url

from ingest.config import ConfigError
from ingest.row import UnavailableError
from outbox.fsync import sync_file, sync_folder

ObjectStore: TypeAlias = AzureStore | GCSStore | LocalStore | S3Store

SCHEMES: Final = ("s3", "s3a", "gs", "az")
CHUNK_BYTES: Final = 5 * 1024 * 1024
CHUNKS_IN_FLIGHT: Final = 2
"""A large blob goes to a bucket in pieces; the two say how much memory one takes."""
REQUEST_S_MAX: Final = 30.0
CONNECT_S_MAX: Final = 5.0
RETRIES_MAX: Final = 2
RETRY_S_MAX: Final = 10.0
"""A bucket that is away is told to the sender soon, who comes again."""
DRAFTS: Final = "??/*#*"
"""How obstore's local store calls a file until it is whole."""
DRAFT_S: Final = 86_400.0
PROBE_BYTES: Final = b"written by zaplake doctor; it may be deleted"

_FAILURES: Final = (BaseError, OSError, ValueError)
"""All that a store raises; a ValueError is a bucket that does not answer as one."""


class BlobStore:
    """Blobs by their sha256. Raises UnavailableError for whatever a store cannot do now."""

    def __init__(self, store: ObjectStore, folder: Path | None) -> None:
        self._store, self._folder = store, folder

    async def put(self, sha256: str, path: Path) -> None:
        """Keep the bytes of ``path``; durable, name and all, when it returns. An equal object is replaced."""
        try:
            await obstore.put_async(
                self._store,
                _key(sha256),
                path,
                chunk_size=CHUNK_BYTES,
                max_concurrency=CHUNKS_IN_FLIGHT,
            )
            if self._folder is not None:
                await asyncio.to_thread(_sync, self._folder, _key(sha256))
        except _FAILURES as error:
            raise UnavailableError(f"the blob store: {type(error).__name__}") from error

    async def read(self, sha256: str) -> AsyncIterator[bytes]:
        """The bytes, chunk by chunk. Raises FileNotFoundError when there are none."""
        try:
            found = await obstore.get_async(self._store, _key(sha256))
            async for chunk in found.stream(min_chunk_size=1024 * 1024):
                yield bytes(chunk)
        except FileNotFoundError:
            raise
        except _FAILURES as error:
            raise UnavailableError(f"the blob store: {type(error).__name__}") from error

    async def has(self, sha256: str) -> bool:
        """Whether its bytes are there."""
        try:
            await obstore.head_async(self._store, _key(sha256))
        except FileNotFoundError:
            return False
        except _FAILURES as error:
            raise UnavailableError(f"the blob store: {type(error).__name__}") from error
        return True

    async def remove(self, sha256: str) -> None:
        """Forget it; one that is not there is fine."""
        await self._remove(_key(sha256))

    async def probe(self) -> None:
        """Write an object and remove it again."""
        key = f"probe/{secrets.token_hex(8)}"
        try:
            await obstore.put_async(self._store, key, PROBE_BYTES)
        except _FAILURES as error:
            raise UnavailableError(str(error).splitlines()[0]) from error
        await self._remove(key)

    def tidy(self) -> None:
        """Blocking. Remove what a killed process left half written in a folder, a day ago and more."""
        if self._folder is None:
            return
        limit = time.time() - DRAFT_S
        for draft in self._folder.glob(DRAFTS):
            with contextlib.suppress(OSError):
                if draft.stat().st_mtime < limit:
                    draft.unlink()

    async def _remove(self, key: str) -> None:
        try:
            await obstore.delete_async(self._store, key)
        except FileNotFoundError:
            return
        except _FAILURES as error:
            raise UnavailableError(f"the blob store: {type(error).__name__}") from error


def open_blob_store(url: str, folder: Path) -> BlobStore:
    """The bucket of ``url``, or ``folder`` when it is empty. Raises ConfigError for what is neither.

    Credentials, region and endpoint of a bucket come from the environment (AWS_ACCESS_KEY_ID,
    AWS_ENDPOINT_URL …).
    """
    if not url:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return BlobStore(LocalStore(folder), folder)
    check_url(url)
    try:
        bucket = from_url(
            url,
            client_options={
                "timeout": f"{REQUEST_S_MAX:.0f}s",
                "connect_timeout": f"{CONNECT_S_MAX:.0f}s",
                "allow_http": True,  # an endpoint with http:// was named so by its operator
            },
            retry_config={"max_retries": RETRIES_MAX, "retry_timeout": timedelta(seconds=RETRY_S_MAX)},
        )
    except _FAILURES as error:
        raise ConfigError(f"blob_store_url: {error}") from error
    assert isinstance(bucket, AzureStore | GCSStore | S3Store)
    return BlobStore(bucket, None)


def check_url(url: str) -> None:
    """Raises ConfigError for the URL of no bucket."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.netloc or parts.username or parts.password:
        schemes = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ConfigError(f"blob_store_url: {schemes} with a bucket and without credentials, or nothing")


def hash_of(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _key(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256}"


def _sync(folder: Path, key: str) -> None:
    """Bytes first, then the names on the way to them."""
    path = folder / key
    sync_file(path)
    for named_in in (path.parent, folder, folder.parent):
        sync_folder(named_in)
