"""Groups and newsletters: metadata, who joins, leaves and changes rank, who asks to join, member labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contracts.canonical import content_hash
from contracts.events import OCCURRENCE, Fold, Path
from contracts.gateways.facts import EMPTY, Seen, Source, changed, subject_of
from contracts.gateways.keys import read_key
from contracts.gateways.protocol import Carrier, member_tag_fact
from contracts.gateways.shape import first_word, jid, mapping, word
from contracts.gateways.updates import flag_fact
from contracts.jids import person

_SUBJECT_ONLY: Final = frozenset({"id", "groupId", "remoteJid", "instanceId", "instance"})
_MEMBER: Final = ("participant", "participantAlt", "participantPn", "participantLid")
"""How an element names one member of a group."""


def read_group(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a group's metadata, whole or a part of it."""
    body = mapping(element)
    group = first_word(body.get("id"), body.get("groupId"), body.get("remoteJid"))
    if set(body) <= _SUBJECT_ONLY:
        yield EMPTY
    else:
        yield source.snapshot("group.metadata", group, element, path=path, chat=jid(group))


def read_participants(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield who came, went or changed rank; 6.7 names them by JIDs, 7 by objects."""
    body = mapping(element)
    group = first_word(body.get("id"), body.get("groupJid"))
    state = (first_word(body.get("action"), "past" if "pastParticipants" in body else None),)
    yield source.transition("group.participants", (group,), state, element, path=path, chat=jid(group))


def read_join_request(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a request to join a group: made, withdrawn or refused."""
    body = mapping(element)
    group = word(body.get("id"))
    who = person(*(body.get(name) for name in _MEMBER))
    state = (word(body.get("action")),)
    yield source.transition("group.join_request", (group, who), state, element, path=path, chat=jid(group))


def read_member_tag(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a member's label as an event of its own; the time is the stanza's."""
    body = mapping(element)
    carrier = Carrier(path=path, time=body.get("messageTimestamp"))
    group = first_word(body.get("groupId"), body.get("id"))
    who = person(*(body.get(name) for name in _MEMBER))
    yield member_tag_fact(source, carrier, group=group, person=who, label=word(body.get("label")) or "")


def read_newsletter_reaction(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield how often a newsletter's message has a reaction: no id, no person."""
    body = mapping(element)
    emoji = word(mapping(body.get("reaction")).get("code")) or ""
    chat, target = jid(body.get("id")), word(body.get("server_id"))
    yield source.fact(
        "reaction",
        (target, None, emoji, OCCURRENCE),
        chat=chat,
        path=path,
        subject=subject_of(chat, target, emoji),
        members=changed(content_hash("reaction", element)),
        fold=Fold.TRANSITION,
    )


def read_newsletter_view(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield how often a newsletter's message was seen."""
    body = mapping(element)
    key = read_key({"id": body.get("server_id"), "remoteJid": body.get("id")})
    yield flag_fact(source, Carrier(path=path, key=key), "view", body.get("count"))


def read_newsletter_participant(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a newsletter member's new role."""
    body = mapping(element)
    group = word(body.get("id"))
    state = (first_word(body.get("new_role"), body.get("action")),)
    yield source.transition("group.participants", (group,), state, element, path=path, chat=jid(group))
