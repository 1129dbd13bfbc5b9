"""The blobs of one ingest process: door, spool, store and ledger, and the sweep that runs beside them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from asgi.body import BodyBudget
from ingest.blob_door import BlobDoor
from ingest.blob_ledger import BlobLedger
from ingest.blob_spool import BlobSpool
from ingest.blob_store import BlobStore, open_blob_store
from ingest.config import ConfigError, IngestConfig
from ingest.doors import log
from ingest.metrics import IngestMetrics
from ingest.row import UnavailableError

KEPT_NAME: Final = "kept"
INCOMING_NAME: Final = "incoming"
"""The two folders of blobs: what is stored (unless a bucket has it), and what is coming in."""
CALM_S: Final = 3600.0
"""No blob is removed for so long after a start or an outage: events that waited for us come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blobs:
    """What an open service has of blobs."""

    door: BlobDoor
    ledger: BlobLedger
    store: BlobStore
    spool: BlobSpool
    every_s: float

    async def run(self) -> None:
        """Forget what nobody needs, a bounded piece each ``every_s`` seconds, until cancelled; 0 is never."""
        if self.every_s > 0:
            await asyncio.to_thread(self.store.tidy)
        sweeps_at_s = time.monotonic() + CALM_S
        while self.every_s > 0:
            try:
                await asyncio.to_thread(self.spool.forget_abandoned)
                if time.monotonic() >= sweeps_at_s:
                    await self.ledger.sweep()
            except UnavailableError as error:
                sweeps_at_s = time.monotonic() + CALM_S
                log.warning("blobs.sweep_skipped", reason=str(error))
            await asyncio.sleep(self.every_s)


def open_store(config: IngestConfig) -> BlobStore:
    """The store that the configuration names. Raises ConfigError, also when it names no folder."""
    if config.blob_folder is None:
        raise ConfigError("blob_folder: where blobs come in")
    try:
        return open_blob_store(config.blob_store_url, config.blob_folder / KEPT_NAME)
    except OSError as error:
        raise ConfigError(f"blob_folder: {error.strerror or error}") from error


def open_blobs(config: IngestConfig, budget: BodyBudget, metrics: IngestMetrics) -> Blobs | None:
    """Makes the folders; None where no folder is configured. Raises ConfigError."""
    if config.blob_folder is None:
        return None
    store = open_store(config)
    spool = BlobSpool(config.blob_folder / INCOMING_NAME, config.blob_spool_bytes_max)
    try:
        spool.open()
    except OSError as error:
        raise ConfigError(f"blob_folder: {error.strerror or error}") from error
    ledger = BlobLedger(config, store)
    door = BlobDoor(config, spool=spool, ledger=ledger, budget=budget, metrics=metrics)
    return Blobs(door=door, ledger=ledger, store=store, spool=spool, every_s=config.watch_every_s)
