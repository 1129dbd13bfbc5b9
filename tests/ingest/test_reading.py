"""From bytes to a row, or to what is wrong with them: pure rules."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.blobs import BlobRef, encode_ref
from contracts.envelope import WireEvent, encode_event
from ingest.admission import Rates
from ingest.problems import ProblemError
from ingest.reading import SHARDS, Incoming, is_event_id, read_event
from ingest.row import Row
from tests.ingest.backend import event

ID = "00000000-0000-5000-8000-00000000000b"


def read(body: bytes) -> Row:
    return read_event(body, event_id=ID, collector=None)


def outcome(body: bytes) -> str | int:
    """The id of the row, or the status of the problem."""
    try:
        return read(body).event_id
    except ProblemError as error:
        return error.kind.status


def test_the_backend_reads_every_field_of_the_wire() -> None:
    assert set(Incoming.__struct_fields__) == set(WireEvent.__struct_fields__)


def test_what_the_collector_encodes_is_read_back() -> None:
    body = encode_event(
        type="messages.upsert", chat_jid="c", payload=b'{ "a": 1.0 }', envelope=b'{"e":[]}', instance="i",
        gateway="g", scope="s", channel="jsonl", kind="message", occurred_at="2026-05-01T12:00:00Z",
        occurred_from="gateway", captured_at="2026-05-01T12:00:00Z", digest="0f" * 16,
        flags=("synthetic_id",), reader_error="e", redacted=("/a",),
    )  # fmt: skip
    row = read(body)
    assert bytes(row.payload) == b'{ "a": 1.0 }'
    assert row.envelope is not None
    assert bytes(row.envelope) == b'{"e":[]}'
    assert row.digest == b"\x0f" * 16
    assert (row.flags, row.redacted, row.channel, row.kind) == (
        ("synthetic_id",),
        ("/a",),
        "jsonl",
        "message",
    )


def test_a_line_may_list_its_blobs_and_nothing_else_as_blobs() -> None:
    ref = BlobRef(sha256="0f" * 32, bytes=3, mime="image/png")
    body = encode_event(type="t", chat_jid=None, payload=b"{}", blobs=[ref])
    assert msgspec.json.decode(body)["blobs"] == [msgspec.json.decode(encode_ref(ref))]
    read(body)
    assert outcome(body.replace(b'"bytes":3', b'"bytes":-3')) == 422
    assert outcome(body.replace(b"0f0f", b"0F0F", 1)) == 422


def test_the_usual_payload_is_passed_on_byte_for_byte() -> None:
    payload = b'{"t": "C:\\\\u0000 \\u00e7 \xc3\xa7",  "n": 1.50e2, "big": 12345678901234567890123}'
    assert bytes(read(b'{"type":"x","payload":' + payload + b"}").payload) == payload


ABOUT_ONE_MESSAGE = [
    {"key": {"id": "3EB0", "remoteJid": "a"}, "message": {}},
    {"key": {"id": "3EB0", "fromMe": True}, "status": "READ"},
    {"keyId": "3EB0", "status": "READ"},
    {"keyId": "3EB0", "key": None},
]


def test_facts_about_a_message_share_a_shard_in_any_chat() -> None:
    shards = {
        read(event(payload=payload, chat_jid=chat, scope="s")).shard
        for payload in ABOUT_ONE_MESSAGE
        for chat in ("1@s.whatsapp.net", "2@lid", None)
    }
    assert len(shards) == 1


@pytest.mark.parametrize(
    "payload", [{}, [], {"key": "text"}, {"key": {"id": 5}}, {"key": {}}, {"keyId": [1]}]
)
def test_other_facts_share_the_shard_of_their_chat(payload: object) -> None:
    assert (
        read(event(payload=payload, chat_jid="c", scope="s")).shard
        == read(event(payload={}, chat_jid="c", scope="s")).shard
    )


def test_shards_spread_and_keep_scopes_apart() -> None:
    spread = {read(event(payload={"key": {"id": str(n)}}, scope="s")).shard for n in range(2000)}
    assert spread == set(range(SHARDS))
    apart = {read(event(payload={"key": {"id": "1"}}, scope=str(n))).shard for n in range(200)}
    assert len(apart) > SHARDS // 2


def test_a_shard_never_changes() -> None:
    """Rows keep their shard for ever: these numbers are part of the schema."""
    assert read(event(payload={"key": {"id": "3EB0"}}, scope="acme")).shard == 15
    assert read(event(payload={}, scope="acme", chat_jid="5511900000001@s.whatsapp.net")).shard == 51


@given(st.uuids())
def test_every_uuid_is_an_event_id(value: uuid.UUID) -> None:
    assert is_event_id(str(value))


@given(st.text(max_size=40))
def test_whatever_is_an_event_id_is_a_uuid(text: str) -> None:
    assert not is_event_id(text) or str(uuid.UUID(text)) == text


NO_IDS = ["", ID[:-1], ID + "\n", ID.replace("-", ""), ID.upper(), "-" * 36]


@pytest.mark.parametrize("text", NO_IDS)
def test_what_is_no_event_id(text: str) -> None:
    assert not is_event_id(text)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_row_or_a_problem(body: bytes) -> None:
    assert outcome(body) in (ID, 400, 422)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from([*Incoming.__struct_fields__, "other"]), JSON))
def test_any_members_are_a_row_or_422(members: dict[str, object]) -> None:
    assert outcome(json.dumps(members).encode()) in (ID, 422)


@pytest.mark.parametrize("secret", ["5511900000001", "minha senha"])
def test_a_problem_never_repeats_what_was_sent(secret: str) -> None:
    for body in (
        event(occurred_at=secret),
        event(type=secret * 20),
        event(digest=secret),
        json.dumps({secret: [secret], "type": [secret], "payload": {}}).encode(),
        b'{"type": "' + secret.encode(),
    ):
        with pytest.raises(ProblemError) as caught:
            read(body)
        assert secret not in (caught.value.detail or "")


@dataclass(frozen=True, kw_only=True)
class Try:
    after_s: float
    events: int


@given(st.lists(st.builds(Try, after_s=st.floats(0, 10), events=st.integers(1, 50)), max_size=60))
def test_a_sender_gets_no_more_than_its_rate_burst_and_one_batch(tries: list[Try]) -> None:
    rates = Rates(events_per_s=2, burst=10, senders_max=2)
    now = passed = 0.0
    for attempt in tries:
        now += attempt.after_s
        wait_s = rates.wait_s("a", attempt.events, now)
        assert 0 <= wait_s <= (1 + 50) / 2 + 1
        if wait_s == 0:
            passed += attempt.events
    assert passed <= now * 2 + 10 + 50


def test_a_sender_that_waits_as_told_is_let_through_and_old_senders_are_forgotten() -> None:
    rates = Rates(events_per_s=2, burst=1, senders_max=2)
    assert rates.wait_s("a", 5, 0) == 0
    wait_s = rates.wait_s("a", 1, 0)
    assert rates.wait_s("a", 1, wait_s + 0.001) == 0
    assert rates.wait_s("a", 1, wait_s + 0.002) > 0
    assert rates.wait_s("b", 1, wait_s) == rates.wait_s("c", 1, wait_s) == 0
    assert rates.wait_s("a", 1, wait_s + 0.002) == 0
