"""Reads WAHA's webhook bodies: ``{id, timestamp, event, session, payload, …}``; the payload is the element.

Facts about messages are in ``wahamessages``. Source: gateways.md §5.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from contracts.canonical import content_hash
from contracts.events import OCCURRENCE, Event, Fold, Path, Reading, Stamp
from contracts.gateways.body import stamp
from contracts.gateways.facts import EMPTY, Source, subject_of
from contracts.gateways.keys import own_parts
from contracts.gateways.secrets import loose_secrets
from contracts.gateways.shape import first_word, items, jid, mapping, word
from contracts.gateways.wahakeys import split_id
from contracts.gateways.wahamessages import (
    PAYLOAD,
    read_ack,
    read_edit,
    read_group_ack,
    read_message,
    read_reaction,
    read_revoke,
    read_vote,
    read_waiting,
    stable,
)
from contracts.jids import bare_jid, person
from contracts.times import as_datetime, as_integer

Read: TypeAlias = Callable[[Source, Mapping[str, object]], Iterator[Event]]

_SECRET_EVENTS: Final = re.compile(
    r"(?:.*[._])?(?:creds\.update|qr|qrcode|qrchannelitem|code)", re.IGNORECASE
)
"""Events of an engine whose data as a whole lets anyone link to the account (also ``events.QR``)."""
_NAME_CHARS_MAX: Final = 100


def read(body: object, *, path_instance: str | None = None) -> Reading:
    """Return the facts of one body. Total: what is not known is one event of kind unknown.

    The native instance is the path's (contract §4), though the body names its session too.
    """
    whole = mapping(body)
    payload = whole.get("payload")
    source = Source(
        type=word(whole.get("event")) or "unknown",
        instance=path_instance or "",
        dialect="waha",
        occurrence=_occurrence(whole),
        emitted_at=as_datetime(mapping(payload).get("timestamp")) or as_datetime(whole.get("timestamp")),
    )
    if source.type == "presence.update" and mapping(payload).get("presences") == []:
        return Reading(instance=None, counted=((EMPTY, 1),))
    events = _known(source, payload)
    if events:
        cuts = tuple((*PAYLOAD, *place) for place in loose_secrets(payload))
        return Reading(instance=None, events=events, data_path=PAYLOAD, cuts=cuts)
    element, path = (payload, PAYLOAD) if "payload" in whole else (body, ())
    unknown = source.notice("unknown", element, path=path, cuts=loose_secrets(element))
    return Reading(instance=None, events=(unknown,), data_path=path)


def _known(source: Source, payload: object) -> tuple[Event, ...]:
    if source.type == "state.change":
        return tuple(_read_state(source, payload))
    reader = TOPICS.get(source.type)
    return tuple(reader(source, payload)) if reader and isinstance(payload, dict) and payload else ()


def _occurrence(whole: Mapping[str, object]) -> Stamp | None:
    """The payload's time, else the last of its statuses, else the event's id, else the sender's own stamp."""
    payload = mapping(whole.get("payload"))
    statuses = payload.get("statuses")
    last = mapping(statuses[-1]) if isinstance(statuses, list) and statuses else {}
    for value in (payload.get("timestamp"), last.get("timestamp")):
        number = as_integer(value)
        if number is not None:
            return word(number)
        if isinstance(value, float) and math.isfinite(value):
            return repr(value)
    return word(whole.get("id")) or stamp(whole.get("at"), whole.get("seq"))


def _read_session(source: Source, payload: Mapping[str, object]) -> Iterator[Event]:
    state = word(payload.get("status")) or ""
    yield source.transition("connection", (), (state,), stable(payload), path=PAYLOAD, chat=None)


def _read_state(source: Source, payload: object) -> Iterator[Event]:
    """The deprecated state.change: the state alone, or an object around it."""
    state = word(payload) or word(mapping(payload).get("state"))
    if state is not None:
        yield source.transition("connection", (), (state,), {"state": state}, path=PAYLOAD, chat=None)


def _read_call(source: Source, payload: Mapping[str, object]) -> Iterator[Event]:
    """One call's offer, accept or reject; WAHA's names differ from WhatsApp's."""
    status = _CALLS[source.type]
    caller = jid(payload.get("from"), payload.get("to"))
    yield source.fact(
        "call",
        own_parts(split_id(payload.get("id")).id, "call", stable(payload), status),
        chat=None if caller is None else bare_jid(caller),
        path=PAYLOAD,
        time=payload.get("timestamp"),
        time_from="message",
    )


def _read_members(source: Source, payload: Mapping[str, object]) -> Iterator[Event]:
    """Who came and went: group.v2.participants says it, join and leave are about ourselves."""
    group = _group(payload)
    action = (
        word(payload.get("type")) if source.type.endswith(".participants") else source.type.rpartition(".")[2]
    )
    yield source.transition(
        "group.participants", (group,), (action,), stable(payload), path=PAYLOAD, chat=group
    )


def _read_group(source: Source, payload: Mapping[str, object]) -> Iterator[Event]:
    group = _group(payload)
    yield source.snapshot("group.metadata", group, stable(payload), path=PAYLOAD, chat=group)


def _read_chat(source: Source, payload: Mapping[str, object]) -> Iterator[Event]:
    chat = _chat(payload.get("id"), payload.get("chatId"))
    yield source.snapshot("chat", chat, stable(payload), path=PAYLOAD, chat=chat)


def _read_label(source: Source, payload: Mapping[str, object]) -> Iterator[Event]:
    name = word(payload.get("id"))
    if source.type != "label.deleted":
        yield source.snapshot("label", name, stable(payload), path=PAYLOAD, chat=None)
        return
    gone = content_hash("label", {**stable(payload), "deleted": True})
    yield source.fact(
        "label", (name, gone, OCCURRENCE), path=PAYLOAD, subject=subject_of(name), fold=Fold.CLEAR
    )


def _read_label_on_chat(source: Source, payload: Mapping[str, object]) -> Iterator[Event]:
    chat = _chat(payload.get("chatId"))
    label = first_word(payload.get("labelId"), mapping(payload.get("label")).get("id"))
    subject = (chat, split_id(payload.get("messageId")).id, label)
    action = "add" if source.type.endswith(".added") else "remove"
    yield source.transition("label.assoc", subject, (action,), stable(payload), path=PAYLOAD, chat=chat)


def _read_presence(source: Source, payload: Mapping[str, object]) -> Iterator[Event]:
    chat = _chat(payload.get("id"))
    for path, item in items(payload.get("presences"), (*PAYLOAD, "presences")):
        who = person(mapping(item).get("participant"))
        state = word(mapping(item).get("lastKnownPresence"))
        element = path if isinstance(item, dict) else PAYLOAD
        yield source.fact("presence", (chat, who, state, OCCURRENCE), chat=chat, path=element)


def _read_engine(source: Source, payload: Mapping[str, object]) -> Iterator[Event]:
    """What the engine below WAHA said, as it said it, without what lets anyone link to the account."""
    cuts = tuple(_engine_secrets(payload))
    hidden = {path[1] for path in cuts if len(path) == 2}
    data = payload.get("data")
    shown = {name: value for name, value in mapping(data).items() if name not in hidden}
    element = {"event": payload.get("event"), "data": None if ("data",) in cuts else shown or data}
    parts = (source.type, content_hash("gateway.notice", element), OCCURRENCE)
    yield source.fact("gateway.notice", parts, path=PAYLOAD, cuts=cuts)


def _engine_secrets(payload: Mapping[str, object]) -> Iterator[Path]:
    if _SECRET_EVENTS.fullmatch((word(payload.get("event")) or "")[:_NAME_CHARS_MAX]):
        yield ("data",)
    else:
        yield from loose_secrets({"data": payload.get("data")})


def _chat(*values: object) -> str | None:
    """The chat's address, given as text or as WEBJS's object."""
    found = jid(*values, *(mapping(value).get("_serialized") for value in values))
    return None if found is None else bare_jid(found)


def _group(payload: Mapping[str, object]) -> str | None:
    group = mapping(payload.get("group"))
    return _chat(group.get("id"), payload.get("id"), payload.get("chatId"), payload.get("groupId"))


_CALLS: Final[Mapping[str, str]] = {
    "call.received": "OFFER",
    "call.accepted": "ACCEPT",
    "call.rejected": "REJECT",
}
TOPICS: Final[Mapping[str, Read]] = {
    "message": read_message,
    "message.any": read_message,
    "message.ack": read_ack,
    "message.ack.group": read_group_ack,
    "message.edited": read_edit,
    "message.reaction": read_reaction,
    "message.revoked": read_revoke,
    "message.waiting": read_waiting,
    "event.response": read_message,
    "event.response.failed": read_message,
    "poll.vote": read_vote,
    "poll.vote.failed": read_vote,
    "session.status": _read_session,
    **dict.fromkeys(_CALLS, _read_call),
    **dict.fromkeys(
        ("group.v2.participants", "group.v2.join", "group.v2.leave", "group.join", "group.leave"),
        _read_members,
    ),
    "group.v2.update": _read_group,
    "chat.archive": _read_chat,
    "label.upsert": _read_label,
    "label.deleted": _read_label,
    "label.chat.added": _read_label_on_chat,
    "label.chat.deleted": _read_label_on_chat,
    "presence.update": _read_presence,
    "engine.event": _read_engine,
}
"""How the payload of each event is read, an object; state.change's may be a word."""
