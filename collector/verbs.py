"""What an operator can ask of a collector: status, dead letters, loading a file, carrying records away.

The same words work over a living daemon's control socket and directly on the file of a stopped one.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from collector.capture import Capture
from collector.carrying import PAGE_BYTES_MAX, PAGE_RECORDS_MAX, STATES, NoRecord, record_document, record_of
from collector.carrying_blobs import bringing
from collector.config import Limits
from collector.jsonl import LoadReport, load
from contracts.blobs import is_sha256
from contracts.translation import Arrival
from outbox.blobs import DeadBlob
from outbox.history import history_members
from outbox.kept import KeptRecord
from outbox.store import DeadRecord, Store

LIST_MAX: Final = 1_000

Document: TypeAlias = dict[str, Any]
"""A JSON object."""
OnProgress: TypeAlias = Callable[[Document], Awaitable[None]]


async def unheard(_progress: Document) -> None:
    """For requests whose progress nobody watches."""


class VerbError(Exception):
    """The request cannot be done; the message is for the operator."""


class Verbs:
    """Runs one request at a time to its end; each is durable when it returns."""

    def __init__(
        self,
        *,
        store: Store,
        capture: Capture,
        limits: Limits,
        now: Callable[[], datetime],
        spool: Path,
        status: Callable[[], Awaitable[Document]],
        wake: Callable[[], None],
    ) -> None:
        self._store, self._capture, self._limits, self._now = store, capture, limits, now
        self._status, self._wake, self._spool = status, wake, spool
        self._verbs: dict[str, Callable[[Mapping[str, object], OnProgress], Awaitable[Document]]] = {
            "status": self._tell_status,
            "dead.list": self._dead_list,
            "dead.show": self._dead_show,
            "dead.requeue": self._dead_requeue,
            "dead.drop": self._dead_drop,
            "load": self._load,
            "refill": self._refill,
            "export": self._export,
            "import": self._import,
        }

    async def run(self, request: Mapping[str, object], on_progress: OnProgress) -> Document:
        """Does what ``request["verb"]`` says. Raises VerbError, and what the store raises."""
        verb = self._verbs.get(str(request.get("verb")))
        if verb is None:
            raise VerbError(f"unknown verb; one of {', '.join(self._verbs)}")
        return await verb(request, on_progress)

    async def _tell_status(self, _request: Mapping[str, object], _on_progress: OnProgress) -> Document:
        return await self._status()

    async def _dead_list(self, request: Mapping[str, object], _on_progress: OnProgress) -> Document:
        """``limit`` (at most 1,000), ``after`` and ``blobs_after`` (rowids) page through; without bodies."""
        limit = min(_whole(request, "limit", 100), LIST_MAX)
        dead = await self._store.dead_list(limit=limit, after=_whole(request, "after", 0))
        # Blobs stand behind the last letter, in an order of their own.
        blobs_after = _whole(request, "blobs_after", 0)
        blobs = []
        if len(dead) < limit:
            blobs = await self._store.blobs.dead_list(limit=limit, after=blobs_after)
        return {
            "dead": [dead_document(record) for record in dead],
            "blobs": [blob_document(blob, self._store.blobs.path_of(blob.sha256)) for blob in blobs],
        }

    async def _dead_show(self, request: Mapping[str, object], _on_progress: OnProgress) -> Document:
        wanted = str(request.get("id"))
        dead = [dead_document(record) for record in await self._store.dead_show(wanted)]
        if is_sha256(wanted):
            path, after = self._store.blobs.path_of(wanted), 0
            while blobs := await self._store.blobs.dead_list(limit=LIST_MAX, after=after):
                dead += [blob_document(blob, path) for blob in blobs if blob.sha256 == wanted]
                after = blobs[-1].rowid
        if not dead:
            raise VerbError("no dead letter of that id")
        return {"dead": dead}

    async def _dead_requeue(self, request: Mapping[str, object], _on_progress: OnProgress) -> Document:
        ids, sha256s = _told_apart(_ids(request))
        requeued = await self._store.dead_requeue(ids) + await self._store.blobs.dead_requeue(sha256s)
        self._wake()
        return {"requeued": requeued}

    async def _dead_drop(self, request: Mapping[str, object], _on_progress: OnProgress) -> Document:
        ids, sha256s = _told_apart(_ids(request))
        return {"dropped": await self._store.dead_drop(ids) + await self._store.blobs.dead_drop(sha256s)}

    async def _load(self, request: Mapping[str, object], on_progress: OnProgress) -> Document:
        path = Path(str(request.get("path")))
        try:
            report = await load(
                path, self._capture, limits=self._limits, now=self._now, on_progress=_told(on_progress)
            )
        except OSError as error:
            raise VerbError(f"{path}: {error.strerror or error}") from error
        return report_document(report)

    async def _refill(self, request: Mapping[str, object], _on_progress: OnProgress) -> Document:
        """``records``: messages of ``instance`` as Evolution's store has them. Durable at return."""
        gateway, records = self._capture.gateway(str(request.get("gateway"))), request.get("records")
        if gateway is None or gateway.family != "evolution":
            raise VerbError(f"{request.get('gateway')}: no gateway of family evolution here")
        if not isinstance(records, list) or len(records) > LIST_MAX:
            raise VerbError(f"records: a list of at most {LIST_MAX}")
        counts = await self._capture.take_all(
            [
                Arrival(
                    raw=json.dumps(
                        {"event": "messages.upsert", "instance": request.get("instance"), "data": record}
                    ).encode(),
                    gateway=gateway,
                    path_instance=None,
                    channel="refill",
                    captured_at=self._now(),
                )
                for record in records
            ]
        )
        return {"counts": dict(counts)}

    async def _export(self, request: Mapping[str, object], _on_progress: OnProgress) -> Document:
        """One page of ``state`` behind ``after``; the next one begins at ``after`` of the answer."""
        state, after = request.get("state"), _whole(request, "after", 0)
        if state not in STATES:
            raise VerbError(f"state: one of {', '.join(STATES)}")
        while after == 0 and await self._store.release_held():
            self._wake()  # the last of a storm is not left behind
        page = await self._store.kept(state, after=after, limit=PAGE_RECORDS_MAX, bytes_max=PAGE_BYTES_MAX)
        documents = await asyncio.to_thread(lambda: [record_document(record) for record in page])
        return {"records": documents, "after": page[-1].rowid if page else after}

    async def _import(self, request: Mapping[str, object], _on_progress: OnProgress) -> Document:
        """``records`` as exported, their blobs in the folder ``blobs``; ``bad`` names those that are none.

        A blob that is not there is not waited for (it was delivered while the export was made, or is lost),
        and counted in ``blobs_missing``.
        """
        given = request.get("records")
        if not isinstance(given, list) or len(given) > PAGE_RECORDS_MAX:
            raise VerbError(f"records: a list of at most {PAGE_RECORDS_MAX}")
        records: list[KeptRecord] = []
        bad: list[Document] = []
        for place, document in enumerate(given):
            try:
                records.append(record_of(document))
            except NoRecord as error:
                bad.append({"place": place, "reason": str(error)})
        folder = Path(str(request.get("blobs", "")))
        try:
            async with bringing(records, folder, self._spool) as (brought, missing):
                outcomes = await self._store.restore(brought)
        except OSError as error:
            raise VerbError(f"{self._spool}: {error.strerror or error}") from error
        self._wake()
        counts = dict(Counter(outcome.value for outcome in outcomes))
        return {"counts": counts, "bad": bad, "blobs_missing": missing}


def dead_document(record: DeadRecord) -> Document:
    """A dead letter as JSON; the body as text, or as base64 where it is no UTF-8."""
    document: Document = {
        "rowid": record.rowid,
        "id": record.id,
        **history_members(record),
        "died_at": record.died_at.isoformat(),
        "body_bytes": record.body_bytes,
    }
    if record.body is not None:
        try:
            document["body"] = record.body.decode()
        except UnicodeDecodeError:
            document["body_base64"] = base64.b64encode(record.body).decode()
    return document


def blob_document(blob: DeadBlob, path: Path) -> Document:
    """A dead blob as a dead letter; its bytes stay in their file."""
    return {
        "rowid": blob.rowid,
        "id": blob.sha256,
        "label": f"blob {blob.mime}".rstrip(),
        "channel": "",
        "status": blob.status,
        "reason": blob.reason,
        "attempts": blob.attempts,
        "created_at": blob.created_at.isoformat(),
        "died_at": blob.died_at.isoformat(),
        "body_bytes": blob.bytes,
        "file": str(path),
    }


def report_document(report: LoadReport) -> Document:
    """A load's progress or end as JSON."""
    return {
        "file_bytes": report.file_bytes,
        "bytes_read": report.bytes_read,
        "lines": report.lines,
        "counts": dict(report.counts),
        "bad_lines": report.bad_lines,
        "bad": [{"line": bad.number, "reason": bad.reason} for bad in report.bad],
    }


def _told(on_progress: OnProgress) -> Callable[[LoadReport], Awaitable[None]]:
    async def tell(report: LoadReport) -> None:
        await on_progress(report_document(report))

    return tell


def _whole(request: Mapping[str, object], name: str, default: int) -> int:
    value = request.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise VerbError(f"{name}: a whole number")
    return value


def _told_apart(ids: list[str] | None) -> tuple[list[str] | None, list[str] | None]:
    """Ids of records and of blobs; None, meaning all, is both."""
    if ids is None:
        return None, None
    return [id_ for id_ in ids if not is_sha256(id_)], [id_ for id_ in ids if is_sha256(id_)]


def _ids(request: Mapping[str, object]) -> list[str] | None:
    """None, meaning all, must be said: ``"ids": null``."""
    if "ids" not in request:
        raise VerbError("ids: a list, or null for all")
    ids = request["ids"]
    if ids is None:
        return None
    if not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in ids):
        raise VerbError("ids: a list of ids, or null for all")
    return ids
