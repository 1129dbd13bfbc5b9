"""``PUT`` and ``HEAD /api/blobs/{sha256}``: signed parts, spooled, verified as a whole, kept before 2xx."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final, Literal

import msgspec

from asgi.answers import JSON, PROBLEM_JSON, send_answer
from asgi.body import BodyBudget, BodyError, ClientGone, read_body
from asgi.types import Receive, Scope, Send
from contracts.blob_upload import (
    OFFSET_HEADER,
    PART_BYTES_MAX,
    RANGE_HEADER,
    BlobReceipt,
    PartRange,
    signed_text,
)
from contracts.blobs import BLOB_PATH, blob_event_id, clean_mime, is_sha256
from ingest.admission import Sender, admit
from ingest.blob_ledger import BlobLedger
from ingest.blob_spool import BlobSpool, Held
from ingest.blob_store import hash_of
from ingest.config import IngestConfig
from ingest.doors import log
from ingest.metrics import IngestMetrics
from ingest.problems import (
    BAD_BLOB_RANGE,
    BAD_EVENT_ID,
    BROKEN,
    NOT_FOUND,
    TOO_LARGE,
    UNAVAILABLE,
    WRONG_BLOB_METHOD,
    WRONG_HASH,
    ProblemError,
    of_body_error,
)
from ingest.row import Committed, UnavailableError

BLOB_ROOT: Final = f"{BLOB_PATH}/"
_TYPE, _RANGE = b"content-type", RANGE_HEADER.lower().encode()
_encode: Final = msgspec.json.Encoder().encode


class BlobDoor:
    """The door of blobs. Nothing is written before the signature over the part was found right."""

    def __init__(
        self,
        config: IngestConfig,
        *,
        spool: BlobSpool,
        ledger: BlobLedger,
        budget: BodyBudget,
        metrics: IngestMetrics,
    ) -> None:
        self._config, self._spool, self._ledger = config, spool, ledger
        self._budget, self._metrics = budget, metrics
        self.open = True
        """False from the moment the process stops."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers every request to a path of blobs."""
        try:
            await self._serve(scope, receive, send)
        except ClientGone:
            return
        except BodyError as error:
            limit, retry_after_s = PART_BYTES_MAX, self._config.retry_after_s
            refused = of_body_error(error, body_bytes_max=limit, retry_after_s=retry_after_s)
            await self._send_problem(send, refused)
        except ProblemError as error:
            await self._send_problem(send, error)
        except UnavailableError as error:
            log.warning("blob.unavailable", reason=str(error))
            await self._send_problem(
                send, ProblemError(UNAVAILABLE, retry_after_s=self._config.retry_after_s)
            )
        except Exception:
            log.exception("request.broken")
            await self._send_problem(send, ProblemError(BROKEN))

    async def _send_problem(self, send: Send, error: ProblemError) -> None:
        self._metrics.problem(error.kind)
        await send_answer(send, error.kind.status, error.document(), PROBLEM_JSON, error.headers())

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        sha256, method = scope["path"].removeprefix(BLOB_ROOT), scope["method"]
        if not is_sha256(sha256):
            raise ProblemError(NOT_FOUND, "A blob is named by 64 hex digits in lower case.")
        if method not in ("PUT", "HEAD"):
            raise ProblemError(WRONG_BLOB_METHOD)
        if not self.open:
            raise UnavailableError("stopping")
        body = await read_body(scope, receive, body_bytes_max=PART_BYTES_MAX, budget=self._budget)
        try:
            content_range, content_type = _header(scope, _RANGE), _header(scope, _TYPE)
            part_sha256 = await asyncio.to_thread(_sha256, body) if method == "PUT" else ""
            text = signed_text(method, sha256, content_range, content_type, part_sha256)
            event_id = admit(Sender(scope["headers"]), self._config.secrets, text)
            if event_id != blob_event_id(sha256):
                raise ProblemError(BAD_EVENT_ID, "X-Event-Id is not that of this blob.")
            if method == "HEAD":
                await self._tell(send, sha256)
                return
            receipt = await self._take(sha256, _part(content_range, body), content_type, body)
        finally:
            self._budget.give(len(body))
        await _send_receipt(send, receipt)

    async def _tell(self, send: Send, sha256: str) -> None:
        """HEAD: 200 when it is stored, else 404; both with how many bytes are there."""
        size = await self._ledger.look(sha256)
        offset = size if size is not None else await asyncio.to_thread(self._spool.offset, sha256)
        headers = [(OFFSET_HEADER.encode(), str(offset).encode())]
        await send_answer(send, 404 if size is None else 200, b"", JSON, headers)

    async def _take(self, sha256: str, part: PartRange, mime: str, body: bytes) -> BlobReceipt:
        if part.total > self._config.blob_bytes_max:
            raise ProblemError(TOO_LARGE, f"The limit is {self._config.blob_bytes_max} bytes.")
        if not part.size:
            return await self._answer_question(sha256)
        with self._spool.holding(sha256) as held:
            offset = await asyncio.to_thread(held.add, part, body)
            if offset < part.total:
                return _receipt("partial", sha256, offset)
            return await self._finish(sha256, part.total, mime, held)

    async def _answer_question(self, sha256: str) -> BlobReceipt:
        if await self._ledger.ask(sha256):
            return _receipt("duplicate", sha256)
        return _receipt("partial", sha256, await asyncio.to_thread(self._spool.offset, sha256))

    async def _finish(self, sha256: str, size: int, mime: str, held: Held) -> BlobReceipt:
        """All bytes are there: they are the blob, or they go."""
        if await asyncio.to_thread(hash_of, held.path) != sha256:
            held.done()
            raise ProblemError(WRONG_HASH)
        fate = await self._ledger.keep(sha256, size, clean_mime(mime), held.path)
        held.done()
        self._metrics.blob(fate, size)
        return _receipt("stored" if fate is Committed.STORED else "duplicate", sha256)


def _receipt(
    status: Literal["stored", "duplicate", "partial"], sha256: str, offset: int | None = None
) -> BlobReceipt:
    return BlobReceipt(status=status, event_id=blob_event_id(sha256), sha256=sha256, offset=offset)


async def _send_receipt(send: Send, receipt: BlobReceipt) -> None:
    status = {"stored": 201, "duplicate": 200, "partial": 202}[receipt.status]
    headers = [] if receipt.offset is None else [(OFFSET_HEADER.encode(), str(receipt.offset).encode())]
    await send_answer(send, status, _encode(receipt), JSON, headers)


def _part(content_range: str, body: bytes) -> PartRange:
    part = PartRange.parse(content_range)
    if part is None:
        raise ProblemError(BAD_BLOB_RANGE, "Content-Range: bytes FIRST-LAST/TOTAL, or bytes */TOTAL.")
    if part.size != len(body):
        raise ProblemError(BAD_BLOB_RANGE, f"The range has {part.size} bytes, the body {len(body)}.")
    return part


def _header(scope: Scope, name: bytes) -> str:
    """Its value; one that came twice is none."""
    values = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return values[0] if len(values) == 1 else ""


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
