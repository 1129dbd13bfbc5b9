"""Laws of the Evolution and Baileys readers over arbitrary bodies: total, pure, blind to representation."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.events import Event, Reading
from contracts.gateways import baileys, evolution
from contracts.identity import event_id, stamp_occurrence
from tests.contracts.gateways.baileys_bodies import ALL_EVENTS as BAILEYS_EVENTS
from tests.contracts.gateways.evolution_bodies import ALL_EVENTS as EVOLUTION_EVENTS

READERS: Final[dict[str, Callable[[object], Reading]]] = {
    "evolution": evolution.read,
    "baileys": baileys.read,
}
NAMES: Final = sorted(
    {name for name, *_ in (*BAILEYS_EVENTS, *EVOLUTION_EVENTS)} | {"creds.update", "x.y", "error"}
)
MEMBERS: Final = (
    "key id keyId remoteJid participant fromMe message update status messageStubType "
    "messageStubParameters messageTimestamp reaction receipt userJid readTimestamp receiptTimestamp "
    "protocolMessage type editedMessage timestampMs memberLabel label reactionMessage "
    "pollUpdateMessage text conversation imageMessage fileSha256 base64 mediaUrl ephemeralMessage "
    "messages chats contacts keys jid all blocklist presences association chatId packet attrs "
    "content tag starred pollUpdates qr qrcode connection lastDisconnect date lid pn "
    "appStateSyncKeyShare historySyncNotification mediaKey senderTimestampMs groupId action setting "
    "pastParticipants progress"
)

names = st.sampled_from(MEMBERS.split())
words = st.sampled_from(
    [*MEMBERS.split(), "", "REVOKE", "MESSAGE_EDIT", "1@lid", "5511900000002:3@s.whatsapp.net", "1@g.us"]
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([-1, 0, 1, 2, 14, 30, 1764950400, 1764950400123]),
    st.floats(),
    st.text(max_size=6),
    words,
    st.sampled_from(["\ud83d", "a\x00b", "\udc80"]),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(names, st.text(max_size=3)), inner, max_size=6),
    ),
    max_leaves=25,
)
bodies = st.one_of(
    anything,
    st.fixed_dictionaries(
        {"event": st.one_of(st.sampled_from(NAMES), anything)},
        optional={"data": anything, "at": scalars, "seq": scalars, "date_time": scalars, "instance": scalars},
    ),
)


def exists(body: object, event: Event) -> bool:
    """Whether the event's element is really at its path."""
    assert (event.path is None) != (event.payload is None)
    for step in event.path or ():
        if isinstance(step, int):
            assert isinstance(body, list)
            body = body[step]
        else:
            assert isinstance(body, dict)
            body = body[step]
    return True


@pytest.mark.parametrize("family", READERS)
@given(body=bodies)
def test_every_json_value_has_a_reading_and_always_the_same(family: str, body: object) -> None:
    before = copy.deepcopy(body)
    reading = READERS[family](body)
    again = READERS[family](copy.deepcopy(body))
    assert repr(reading) == repr(again)
    assert repr(body) == repr(before)
    assert reading.events or reading.counted
    for event in reading.events:
        assert exists(body, event)
        assert len(event.type) <= 100
        event_id("s", event.kind, event.parts, event.occurrence or stamp_occurrence("e", 1))


@pytest.mark.parametrize("family", READERS)
@pytest.mark.parametrize("name", NAMES)
def test_depth_width_and_long_numbers_break_no_reader(family: str, name: str) -> None:
    deep: object = "fundo"
    for _ in range(3000):
        deep = {"message": deep}
    for data in (
        deep,
        [deep],
        {"key": {"id": "A"}, "message": deep},
        {"messages": [deep]},
        {"x" * 3000: deep},
    ):
        assert READERS[family]({"event": name, "data": data})


def as_long(number: int) -> object:
    low = number & 0xFFFFFFFF
    return {"low": low - (1 << 32) if low >= 1 << 31 else low, "high": number >> 32, "unsigned": False}


integers: Final[tuple[Callable[[int], object], ...]] = (int, str, float, as_long)
byte_forms: Final[tuple[Callable[[bytes], object], ...]] = (
    lambda data: base64.b64encode(data).decode(),
    lambda data: {str(index): byte for index, byte in enumerate(data)},
    lambda data: {"type": "Buffer", "data": list(data)},
    lambda data: {"type": "Buffer", "data": base64.b64encode(data).decode()},
)


@given(
    text=st.text(min_size=1, max_size=20),
    seconds=st.integers(1_600_000_000, 1_900_000_000),
    sha=st.binary(min_size=32, max_size=32),
    identified=st.booleans(),
    integer=st.sampled_from(integers),
    byte_form=st.sampled_from(byte_forms),
)
def test_longs_and_bytes_have_one_identity_and_digest(
    text: str,
    seconds: int,
    sha: bytes,
    identified: bool,
    integer: Callable[[int], object],
    byte_form: Callable[[bytes], object],
) -> None:
    def facts(number: Callable[[int], object], form: Callable[[bytes], object]) -> list[object]:
        key = {"remoteJid": "1@g.us", "participant": "2@lid"} | ({"id": "A"} if identified else {})
        image = {
            "caption": text,
            "fileSha256": form(sha),
            "fileLength": number(2**33),
            "jpegThumbnail": form(sha),
        }
        element = {"key": key, "message": {"imageMessage": image}, "messageTimestamp": number(seconds)}
        edit = {"type": 14, "key": {"id": "T"}, "editedMessage": {"conversation": text}}
        edit["timestampMs"] = number(seconds * 1000 + 123)
        second = {**element, "key": {**key, "id": "B"}, "message": {"protocolMessage": edit}}
        reading = baileys.read({"event": "messages.upsert", "data": {"messages": [element, second]}})
        return [(event.kind, event.parts, event.digest, event.occurred_at) for event in reading.events]

    assert facts(integer, byte_form) == facts(int, byte_forms[0])


@given(
    user=st.integers(10**9, 10**12),
    device=st.sampled_from(["", ":0", ":23", ".0:1"]),
    text=st.text(max_size=9),
)
def test_lid_and_phone_spellings_have_one_identity(user: int, device: str, text: str) -> None:
    lid, phone = f"{user}@lid", "5511900000002@s.whatsapp.net"
    lid_as_sent, phone_as_sent = lid.replace("@", f"{device}@"), phone.replace("@", f"{device}@")
    keys = [
        {"remoteJid": lid_as_sent, "remoteJidAlt": phone, "addressingMode": "lid", "participant": ""},
        {"remoteJid": phone_as_sent, "remoteJidAlt": lid, "addressingMode": "pn", "participant": ""},
        {"remoteJid": phone_as_sent, "senderLid": lid_as_sent},
        {"remoteJid": lid_as_sent, "senderPn": phone_as_sent},
    ]
    for identifier in ({"id": "A"}, {}):
        parts = {
            baileys.read(
                {
                    "event": "messages.upsert",
                    "data": {
                        "messages": [
                            {
                                "key": {**key, **identifier},
                                "message": {"conversation": text},
                                "messageTimestamp": 1,
                            }
                        ]
                    },
                }
            )
            .events[0]
            .parts
            for key in keys
        }
        assert len(parts) == 1


@given(
    parts=st.lists(st.text(max_size=5), min_size=3, max_size=3), occurrence=st.text(min_size=1, max_size=9)
)
def test_a_webhook_and_its_amqp_copy_are_one_fact(parts: list[str], occurrence: str) -> None:
    data = {"remoteJid": "5511900000002@s.whatsapp.net", "pushName": parts[0], "profilePicUrl": parts[1]}
    amqp = {
        "event": "contacts.update",
        "instance": "loja",
        "data": data,
        "date_time": occurrence,
        "apikey": parts[2],
    }
    webhook = {**json.loads(json.dumps(amqp)), "destination": "https://x.test", "apikey": None}
    (one,), (two,) = evolution.read(amqp).events, evolution.read(webhook).events
    assert (one.parts, one.occurrence) == (two.parts, two.occurrence)
