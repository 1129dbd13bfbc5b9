"""Posts records, one as a single, several as a batch, and reads the receipts (contract §1-§3)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from collector.backend import Backend, Reply
from contracts.envelope import BATCH_CONTENT_TYPE, BATCH_PATH, EVENT_PATH, PROBLEM_TOO_LARGE, Receipt
from contracts.identity import batch_id
from outbox.record import Record
from outbox.transport import Answer, RecordReceipt
from outbox.verdict import TransportFailure

_JSON: Final = "application/json"
_PROBLEM_TYPE_CHARS_MAX: Final = 100
_DETAIL_CHARS_MAX: Final = 500

_STRING_OR_BREAK: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\r\n]', re.DOTALL)
_decode_receipt = msgspec.json.Decoder(Receipt).decode


class _Problem(msgspec.Struct, frozen=True):
    """What is read of a problem document (RFC 9457)."""

    type: str = ""
    title: str = ""
    detail: str = ""


_decode_problem = msgspec.json.Decoder(_Problem).decode


class HttpTransport:
    """The engine's ``Transport`` over the contract's two endpoints."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def send(self, records: Sequence[Record]) -> Answer:
        """Posts the records, whose ids differ. Never raises for what the network or the backend does."""
        if len(records) == 1:
            record = records[0]
            reply = await self._backend.post(
                EVENT_PATH, event_id=record.id, body=record.body, content_type=_JSON
            )
        else:
            reply = await self._backend.post(
                BATCH_PATH,
                event_id=batch_id([record.id for record in records]),
                body=b"\n".join(batch_line(record) for record in records),
                content_type=BATCH_CONTENT_TYPE,
            )
        if isinstance(reply, TransportFailure):
            return Answer(status=reply, reason=reply.value)
        return read_answer(reply, {record.id for record in records})


def batch_line(record: Record) -> bytes:
    """The record's body with its ``event_id``, without decoding it, on one line.

    A line break outside a string is white space in JSON; inside one (only the lenient scanner takes that)
    it is written as its escape.
    """
    body = record.body
    if b"\n" in body or b"\r" in body:
        body = _STRING_OR_BREAK.sub(_on_one_line, body)
    return b'{"event_id":"' + record.id.encode() + b'",' + body[1:]


def read_answer(reply: Reply, ids: set[str]) -> Answer:
    """The backend's answer in the engine's words; receipts of records that were not asked for are ignored."""
    if 200 <= reply.status < 300:
        return Answer(status=reply.status, retry_after=reply.retry_after, receipts=_receipts(reply.body, ids))
    problem = _problem(reply)
    name = problem.type.rpartition(":")[2][:_PROBLEM_TYPE_CHARS_MAX]
    return Answer(
        status=reply.status,
        retry_after=reply.retry_after,
        too_large=reply.status == 413 and problem.type == PROBLEM_TOO_LARGE,
        reason=f"{reply.status} {name}".rstrip(),
        detail=(problem.detail or problem.title)[:_DETAIL_CHARS_MAX],
    )


def _receipts(body: bytes, ids: set[str]) -> Mapping[str, RecordReceipt]:
    receipts: dict[str, RecordReceipt] = {}
    for line in body.split(b"\n"):
        if not line.strip():
            continue
        try:
            receipt = _decode_receipt(line)
        except (msgspec.MsgspecError, RecursionError):
            continue
        if receipt.event_id in ids:
            receipts[receipt.event_id] = RecordReceipt(
                status=receipt.status,
                code=str(receipt.code or ""),
                detail=(receipt.detail or "")[:_DETAIL_CHARS_MAX],
            )
    return receipts


def _problem(reply: Reply) -> _Problem:
    try:
        return _decode_problem(reply.body)
    except (msgspec.MsgspecError, RecursionError):
        return _Problem()


def _on_one_line(match: re.Match[bytes]) -> bytes:
    text = match[0]
    if text[:1] != b'"':
        return b" "
    return text.replace(b"\n", b"\\n").replace(b"\r", b"\\r")
