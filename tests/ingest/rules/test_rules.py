"""The first rules: what they decide, and that a batch leaves what one event after the other would leave."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from contracts.inbox import LoggedEvent, Rule
from ingest.inbox.batch import BatchTransaction
from ingest.rules import chats, instances, lid_pairs
from tests.ingest.rules.events import at, event

LID, PHONE, GROUP = "100000000000002@lid", "5511900000002@s.whatsapp.net", "120363000000000010@g.us"
OTHER, DEVICE = "5511900000009@s.whatsapp.net", "100000000000002:7@lid"
LOST = {"error": {"output": {"statusCode": 408}}}
MEMBERS = [{"id": LID, "phoneNumber": PHONE}, {"id": LID}]
TABLES: dict[str, Rule[Any]] = {rule.name: rule for rule in (instances.RULE, lid_pairs.RULE, chats.RULE)}


@pytest.mark.parametrize(
    ("kind", "payload", "state", "reason"),
    [
        ("connection", {"state": "open", "statusReason": 200}, "open", 200),
        ("connection", {"connection": "close", "lastDisconnect": LOST}, "close", 408),
        ("connection", {"name": "default", "status": "WORKING"}, "WORKING", None),
        ("connection", {"isOnline": True}, None, None),
        ("connection", {"connection": "close", "statusReason": 10**30}, "close", None),
        ("instance.logout", {}, "logged_out", None),
        ("instance.delete", None, "deleted", None),
    ],
)  # fmt: skip
def test_what_an_event_says_of_its_instance(
    kind: str, payload: object, state: str | None, reason: int | None
) -> None:
    told = instances.decide(event(kind, payload))
    assert [(one.state, one.reason) for one in told] == ([] if state is None else [(state, reason)])


def test_the_gateways_stamp_wins_over_the_time_of_arrival() -> None:
    retried = event(
        "connection", {"state": "open"}, second=900, envelope={"date_time": "2026-05-01T12:00:05.000Z"}
    )
    assert instances.decide(retried)[0].told_at == at(5)
    waha = event("connection", {"status": "WORKING"}, envelope={"timestamp": 1777636807000})
    assert instances.decide(waha)[0].told_at == at(7)


@pytest.mark.parametrize(
    ("kind", "payload", "pairs"),
    [
        ("lid_mapping", {"lid": LID, "pn": PHONE}, 1),
        ("lid_mapping", {"lid": LID, "jid": PHONE}, 1),
        ("message", {"key": {"remoteJid": PHONE, "remoteJidAlt": LID, "participant": ""}}, 1),
        ("message", {"key": {"remoteJid": PHONE, "senderLid": LID, "fromMe": False}}, 1),
        ("message", {"key": {"remoteJid": PHONE, "senderLid": LID, "fromMe": True}}, 0),
        ("message", {"key": {"remoteJid": PHONE, "remoteJidAlt": PHONE}}, 0),
        ("message", {"key": {"remoteJid": GROUP, "participant": LID, "participantAlt": PHONE}}, 1),
        ("message", {"key": {"remoteJid": GROUP, "participant": DEVICE, "participantPn": PHONE}}, 1),
        ("contact", {"id": LID, "phoneNumber": PHONE}, 1),
        ("group.participants", {"id": GROUP, "participants": MEMBERS}, 1),
        ("group.participants", {"id": GROUP, "participants": [LID]}, 0),
        ("message", {"id": f"false_{GROUP}_3EB0_{LID}", "participant": LID}, 0),
        ("contact", {"id": LID, "lid": "100000000000003@lid", "phoneNumber": PHONE}, 0),
    ],
)  # fmt: skip
def test_which_events_name_both_addresses(kind: str, payload: object, pairs: int) -> None:
    found = lid_pairs.decide(event(kind, payload))
    assert [(pair.lid, pair.phone) for pair in found] == [(LID, "5511900000002")] * pairs


def message(
    second: float, name: str | None = None, *, from_me: bool = False, chat: str = PHONE
) -> LoggedEvent:
    payload = {"key": {"id": "3EB0", "fromMe": from_me}, "pushName": name}
    return event("message", payload, second=second, chat_jid=chat)


def test_what_events_say_of_their_chat() -> None:
    (theirs,), (mine,) = chats.decide(message(1, "Ana")), chats.decide(message(2, "Shop", from_me=True))
    assert (theirs.push_name, theirs.last_from_me) == ("Ana", False)
    assert (mine.push_name, mine.last_from_me) == (None, True)
    (group,) = chats.decide(event("group.metadata", {"id": GROUP, "subject": "Team"}, chat_jid=GROUP))
    assert (group.name, group.last_at) == ("Team", None)
    (gone,) = chats.decide(
        event("chat", {"value": PHONE}, chat_jid="5511900000002:3@c.us", type="chats.delete")
    )
    assert (gone.chat_jid, gone.deleted_at) == (PHONE, at(0))
    assert chats.decide(event("chat", {}, chat_jid=PHONE, scope=None)) == ()


async def written(dsn: str, rule: Rule[Any], *batches: Sequence[LoggedEvent]) -> list[dict[str, Any]]:
    """The rule's table after these batches."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"TRUNCATE lake.{rule.name}")
        for events in batches:
            effects = [effect for one in events for effect in rule.decide(one)]
            if effects:
                await rule.apply(BatchTransaction(connection), effects)
        rows = await connection.fetch(f"SELECT * FROM lake.{rule.name} ORDER BY 1, 2")
        return [dict(row) for row in rows]
    finally:
        await connection.close()


async def test_an_instance_keeps_since_when_it_is_connected(dsn: str) -> None:
    def told(state: str, second: float) -> LoggedEvent:
        return event("connection", {"state": state}, second=second)

    (row,) = await written(dsn, instances.RULE, [told("open", 1)], [told("open", 5)])
    assert (row["state"], row["since"], row["told_at"]) == ("open", at(1), at(5))
    (row,) = await written(dsn, instances.RULE, [told("open", 1)], [told("close", 3), told("open", 5)])
    assert (row["state"], row["since"]) == ("open", at(5)), "it was away within the batch"
    (row,) = await written(dsn, instances.RULE, [told("close", 5)], [told("open", 3)])
    assert row["state"] == "close", "a late retry"
    (row,) = await written(
        dsn, instances.RULE, [told("close", 9000)], [told("open", 3)._replace(received_at=at(18000))]
    )
    assert row["state"] == "open", "the gateway's clock was set back"


async def test_a_pair_that_is_known_is_not_written_again_before_a_day(dsn: str) -> None:
    def pair(second: float, phone: str = PHONE) -> LoggedEvent:
        return event("lid_mapping", {"lid": LID, "pn": phone}, second=second)

    (row,) = await written(dsn, lid_pairs.RULE, [pair(0)], [pair(60)])
    assert row["last_at"] == at(0)
    (row,) = await written(dsn, lid_pairs.RULE, [pair(0)], [pair(90_000)])
    assert (row["since"], row["last_at"]) == (at(0), at(90_000))
    (row,) = await written(dsn, lid_pairs.RULE, [pair(0)], [pair(60, OTHER)], [pair(30)])
    assert (row["phone"], row["since"]) == ("5511900000009", at(60))


async def test_a_chat_keeps_the_latest_of_each_member(dsn: str) -> None:
    named = event("chat", {"id": PHONE, "name": "Ana Prado"}, second=50, chat_jid=PHONE)
    (row,) = await written(
        dsn, chats.RULE, [message(10, "Ana"), named], [message(30, from_me=True)], [message(5, "Old")]
    )
    assert (row["name"], row["push_name"], row["chat_kind"]) == ("Ana Prado", "Ana", "user")
    assert (row["first_message_at"], row["last_message_at"]) == (at(5), at(30))
    assert row["last_message_from_me"] is True
    assert row["deleted_at"] is None


def story(chance: random.Random) -> list[LoggedEvent]:
    """Events of a few instances, people and chats in any order, at different seconds."""
    seconds = chance.sample(range(1000), 40)
    people = [(f"10000000000000{n}@lid", f"551190000000{n}@s.whatsapp.net") for n in range(3)]
    events = []
    for second in seconds:
        lid, phone = chance.choice(people)
        events += [
            event("connection", {"state": chance.choice(["open", "close", "connecting"])}, second=second,
                  instance=chance.choice(["a", "b"])),
            message(second, chance.choice(["Ana", "Bia", None]), from_me=chance.random() < 0.5, chat=phone),
            event("chat", {"name": chance.choice(["X", "Y"])}, second=second + 0.5, chat_jid=phone),
            event("chat", {}, second=second + 0.7, chat_jid=lid, type="chats.delete"),
        ]  # fmt: skip
    return events


@pytest.mark.parametrize("name", ["chats", "instance_states"])
async def test_a_batch_leaves_what_single_events_leave_and_a_replay_nothing(dsn: str, name: str) -> None:
    for seed in range(5):
        rule, events = TABLES[name], story(random.Random(seed))
        events = [one for one in events if rule.kinds is not None and one.kind in rule.kinds]
        singly = await written(dsn, rule, *([one] for one in events))
        assert await written(dsn, rule, events) == singly, f"seed {seed}"
        assert await written(dsn, rule, events[:50], events[50:]) == singly, f"seed {seed}"
        assert len(singly) > 1
        if name == "chats":
            assert await written(dsn, rule, events, events[20:]) == singly, f"seed {seed}"
