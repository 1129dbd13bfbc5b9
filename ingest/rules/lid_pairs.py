"""Which LID is which phone, from every event that names both (``lake.lid_pairs``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from contracts.gateways.shape import items, mapping
from contracts.inbox import LoggedEvent, Rule, Transaction
from contracts.jids import bare_jid, jid_kind, phone_of
from ingest.rules.reading import document
from ingest.rules.statements import KEEP_LID_PAIRS

KINDS: Final = frozenset(
    {"contact", "group.metadata", "group.participants", "lid_mapping", "message", "message.stub", "reaction"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LidPair:
    """A person's two addresses: ``lid`` bare, ``phone`` in digits."""

    scope: str
    lid: str
    phone: str
    at: datetime


def decide(event: LoggedEvent) -> Sequence[LidPair]:
    """The pairs that the event names."""
    if event.scope is None:
        return ()
    at, scope = event.occurred_at or event.received_at, event.scope
    found = dict(_pairs(document(event.payload)))
    return [LidPair(scope=scope, lid=lid, phone=phone, at=at) for lid, phone in found.items()]


def _pairs(body: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """(LID, phone) from the spellings of Baileys 6.7 and 7, of Evolution, and of a list of participants."""
    key = mapping(body.get("key"))
    partner = [key.get("remoteJid"), key.get("remoteJidAlt")]
    if key.get("fromMe") not in (True, "true"):
        partner += (key.get("senderLid"), key.get("senderPn"))
    yield from _pair(*partner)
    yield from _pair(*(key.get(f"participant{end}") for end in ("", "Alt", "Lid", "Pn")))
    yield from _person(body)
    for _path, participant in items(body.get("participants"), ()):
        yield from _person(mapping(participant))


def _person(body: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    names = ("id", "remoteJid", "lid", "pn", "jid", "phoneNumber")
    yield from _pair(*(body.get(name) for name in names))


def _pair(*names: object) -> Iterator[tuple[str, str]]:
    lids = {bare_jid(name) for name in names if isinstance(name, str) and jid_kind(name) == "lid"}
    phones = {phone for phone in map(phone_of, names) if phone is not None}
    if len(lids) == len(phones) == 1:  # two of one kind are two people, or one who changed
        yield lids.pop(), phones.pop()


def fold(pairs: Sequence[LidPair]) -> list[LidPair]:
    """The latest pair of each LID."""
    kept: dict[tuple[str, str], LidPair] = {}
    for pair in pairs:
        old = kept.get((pair.scope, pair.lid))
        if old is None or pair.at >= old.at:
            kept[pair.scope, pair.lid] = pair
    return list(kept.values())


async def apply(transaction: Transaction, pairs: Sequence[LidPair]) -> None:
    """Write them."""
    folded = fold(pairs)
    await transaction.execute(
        KEEP_LID_PAIRS,
        [pair.scope for pair in folded],
        [pair.lid for pair in folded],
        [pair.phone for pair in folded],
        [pair.at for pair in folded],
    )


RULE: Final = Rule(name="lid_pairs", kinds=KINDS, decide=decide, apply=apply)
