"""Baileys 6.7 and 7: one ``{"event", "data", "at"?, "seq"?}`` of a bot, read into facts."""

from __future__ import annotations

from typing import Final

from contracts.events import Reading
from contracts.gateways import directory, groups, session, updates
from contracts.gateways.body import Route, named_instance, read_body, route_table, stamp, unnamed
from contracts.gateways.facts import Source
from contracts.gateways.history import read_history, read_upsert
from contracts.gateways.shape import mapping, word
from contracts.gateways.shared import SHARED
from contracts.times import as_datetime

_ROUTES: Final = route_table(
    [
        *SHARED,
        Route(type="messages.upsert", fan=read_upsert),
        Route(type="messages.update", read=updates.read_baileys_update),
        Route(type="messages.delete", read=updates.read_local_delete, member="keys"),
        Route(type="messaging-history.set", fan=read_history),
        Route(type="contacts.set", read=directory.read_contact, member="contacts"),
        Route(type="chats.set", read=directory.read_chat, member="chats"),
        Route(type="chats.lock", read=directory.read_chat),
        Route(type="chats.phoneNumberShare", read=directory.read_lid_mapping),
        Route(type="groups.metadata", read=groups.read_group),
        Route(type="newsletter.reaction", read=groups.read_newsletter_reaction),
        Route(type="newsletter.view", read=groups.read_newsletter_view),
        Route(type="newsletter-participants.update", read=groups.read_newsletter_participant),
        Route(type="newsletter-settings.update", read=groups.read_group),
        Route(type="message-capping.update", read=session.read_account_notice),
    ]
)


def read(body: object, *, path_instance: str | None = None) -> Reading:
    """Read one body; total over every JSON value. Occurrence is ``at`` + ``seq`` when the bot gives both."""
    fields = mapping(body)
    named = named_instance(fields)
    source = Source(
        type=word(fields.get("event")) or "unknown",
        instance=named or path_instance or "",
        dialect="baileys",
        occurrence=stamp(fields.get("at"), fields.get("seq")),
        emitted_at=as_datetime(fields.get("at")),
    )
    if word(fields.get("event")) is None:
        return unnamed(body, source, named)
    return read_body(fields, source, named, _ROUTES)
