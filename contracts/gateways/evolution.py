"""Evolution API 1.8 to 2.4: one body of its webhook, its RabbitMQ or its websocket, read into facts."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from contracts.events import Reading
from contracts.gateways import directory, groups, session, updates
from contracts.gateways.body import (
    STAMP_CHARS_MAX,
    Route,
    named_instance,
    read_body,
    route_table,
    stamp,
    unnamed,
)
from contracts.gateways.element import read_element
from contracts.gateways.facts import Source
from contracts.gateways.protocol import read_bare_protocol
from contracts.gateways.shape import mapping, word
from contracts.gateways.shared import SHARED
from contracts.jids import bare_jid

_ROUTES: Final = route_table(
    [
        *SHARED,
        Route(type="messages.upsert", read=read_element, member="messages"),
        Route(type="messages.set", read=read_element, member="messages"),
        Route(type="send.message", read=read_element),
        Route(type="messages.edited", read=read_bare_protocol),
        Route(type="send.message.update", read=read_bare_protocol),
        Route(type="messages.update", read=updates.read_evolution_update),
        Route(type="messages.delete", plain=True, read=updates.read_evolution_delete, member="keys"),
        Route(type="contacts.set", read=directory.read_contact),
        Route(type="chats.set", read=directory.read_chat),
        Route(type="group.update", read=groups.read_group),
        Route(type="status.instance", read=session.read_connection),
        Route(type="qrcode.updated", plain=True, read=session.read_qr),
        Route(type="instance.create", plain=True, read=session.read_instance),
        Route(type="instance.delete", plain=True, read=session.read_instance),
        Route(type="logout.instance", plain=True, read=session.read_instance),
        Route(type="remove.instance", plain=True, read=session.read_instance),
        Route(type="typebot.start", read=session.read_typebot),
        Route(type="typebot.change-status", read=session.read_typebot),
        Route(type="messaging-history.set", read=session.read_history_marker),
        Route(type="application.startup", plain=True, read=session.read_notice),
        Route(type="error", plain=True, read=session.read_notice),
    ]
)


def read(body: object, *, path_instance: str | None = None) -> Reading:
    """Read one body; total over every JSON value. Occurrence is ``date_time``, a wall clock and no time.

    ``path_instance`` is what the door's path names, for a body that names none.
    """
    fields = mapping(body)
    named = named_instance(fields)
    when = fields.get("date_time")
    event = word(fields.get("event"))
    source = Source(
        type=event or "unknown",
        instance=named or path_instance or "",
        dialect="evolution",
        occurrence=when
        if isinstance(when, str) and 0 < len(when) <= STAMP_CHARS_MAX
        else stamp(fields.get("at"), fields.get("seq")),
    )
    if event is None:
        return unnamed(body, source, named)
    return _without_own_chat(read_body(fields, source, named, _ROUTES), fields.get("sender"))


def _without_own_chat(reading: Reading, own: object) -> Reading:
    """A bare protocol message names the chat as its sender sees it: in a direct one that is ourselves."""
    if not isinstance(own, str) or not any(event.type == "messages.edited" for event in reading.events):
        return reading
    events = tuple(
        replace(event, chat_jid=None)
        if event.type == "messages.edited" and event.chat_jid and bare_jid(event.chat_jid) == bare_jid(own)
        else event
        for event in reading.events
    )
    return replace(reading, events=events)
