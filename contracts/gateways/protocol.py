"""Protocol messages: revoke, edit and member label are facts of their own, whichever carrier brought them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from contracts.canonical import content_hash
from contracts.digest import content_digest
from contracts.events import OCCURRENCE, Event, Fold, Part, Path
from contracts.gateways.content import message_secrets, protocol_secrets, protocol_type
from contracts.gateways.facts import Seen, Source, changed, subject_of
from contracts.gateways.keys import NO_KEY, MessageKey, id_flags, own_parts, read_key
from contracts.gateways.shape import mapping, word
from contracts.times import as_seconds


class Carrier(msgspec.Struct, frozen=True, kw_only=True):
    """The element that a protocol message came in; a bare one (Evolution) has neither key nor time."""

    path: Path
    key: MessageKey = NO_KEY
    time: object = None
    cuts: tuple[Path, ...] = ()


def protocol_fact(source: Source, carrier: Carrier, protocol: Mapping[str, object]) -> Event | None:
    """Return the fact that a protocol message states; None when it is a message with an id like any other."""
    name = protocol_type(protocol)
    target = read_key(protocol.get("key"))
    if name == "REVOKE":
        return revoke_fact(source, carrier, target=target, element=protocol)
    if name == "MESSAGE_EDIT":
        return _edit_fact(source, carrier, protocol, target)
    if name == "GROUP_MEMBER_LABEL_CHANGE":
        label = word(mapping(protocol.get("memberLabel")).get("label")) or ""
        return member_tag_fact(
            source, carrier, group=carrier.key.chat, person=carrier.key.author, label=label
        )
    if carrier.key.id is not None:
        return None
    return source.fact(
        "message.protocol",
        (name, content_hash("message.protocol", protocol), OCCURRENCE),
        chat=carrier.key.chat or target.chat,
        path=carrier.path,
        time=carrier.time,
        time_from="message",
        cuts=carrier.cuts,
    )


def revoke_fact(source: Source, carrier: Carrier, *, target: MessageKey, element: object) -> Event:
    """Return the revoke of a target; without one it is known by the carrier's own id."""
    known = target.id or carrier.key.id
    return source.fact(
        "message.revoke",
        own_parts(known, "message.revoke", element),
        chat=carrier.key.chat or target.chat,
        path=carrier.path,
        time=carrier.time,
        time_from="message",
        flags=id_flags(known),
        cuts=carrier.cuts,
    )


def _edit_fact(source: Source, carrier: Carrier, protocol: Mapping[str, object], target: MessageKey) -> Event:
    time = protocol.get("timestampMs")
    if as_seconds(time) is None:
        time = carrier.time
    seconds = as_seconds(time)
    content = protocol.get("editedMessage")
    if seconds is None:
        return edit_echo(source, carrier, target=target, content=content, element=protocol)
    known = target.id or carrier.key.id
    return source.fact(
        "message.edit",
        own_parts(known, "message.edit", protocol, content_digest(content).hex(), seconds),
        chat=carrier.key.chat or target.chat,
        path=carrier.path,
        time=time,
        time_from="message",
        flags=id_flags(known),
        cuts=carrier.cuts,
    )


def edit_echo(
    source: Source, carrier: Carrier, *, target: MessageKey, content: object, element: object
) -> Event:
    """Return an edit whose carrier does not say when: target, digest, occurrence."""
    digest = content_digest(content).hex()
    parts: tuple[Part, ...] = (target.id, digest, OCCURRENCE)
    if target.id is None:
        parts = own_parts(None, "message.edit.echo", element, digest)
    return source.fact(
        "message.edit.echo",
        parts,
        chat=carrier.key.chat or target.chat,
        path=carrier.path,
        time=carrier.time,
        flags=id_flags(target.id),
        cuts=carrier.cuts,
        subject=subject_of(target.id),
        members=changed(digest),
        fold=Fold.TRANSITION,
    )


def member_tag_fact(
    source: Source, carrier: Carrier, *, group: str | None, person: str | None, label: str
) -> Event:
    """Return a member's label: group, person, label, stanza time; what is lacking is null + occurrence."""
    seconds = as_seconds(carrier.time)
    parts: tuple[Part, ...] = (group, person, label, seconds)
    if None in parts:
        parts = (*parts, OCCURRENCE)
    return source.fact(
        "group.member_tag",
        parts,
        chat=group,
        path=carrier.path,
        time=carrier.time,
        time_from="message",
        cuts=carrier.cuts,
    )


def read_bare_protocol(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield the fact of Evolution's messages.edited and send.message.update: the bare protocol message."""
    protocol = mapping(element)
    inner = mapping(protocol.get("protocolMessage"))
    at: Path = ("protocolMessage",) if inner else ()
    cuts = (*((*at, *cut) for cut in protocol_secrets(inner or protocol)), *message_secrets(element))
    fact = protocol_fact(source, Carrier(path=path, cuts=cuts), inner or protocol)
    if fact is not None:
        yield fact
