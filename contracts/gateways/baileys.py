"""Baileys 6.7 and 7: one ``{"event", "data", "at"?, "seq"?}`` of a bot, read into facts."""

from __future__ import annotations

from typing import Final

from contracts.events import Reading
from contracts.gateways import calls, directory, groups, session, updates
from contracts.gateways.body import Route, read_body, route_table, stamp, unnamed
from contracts.gateways.facts import Source
from contracts.gateways.history import read_history, read_upsert
from contracts.gateways.shape import mapping, word
from contracts.times import as_datetime

_ROUTES: Final = route_table(
    [
        Route(type="messages.upsert", fan=read_upsert),
        Route(type="messages.update", read=updates.read_baileys_update),
        Route(type="messages.delete", read=updates.read_local_delete, member="keys"),
        Route(type="messages.reaction", read=updates.read_reaction),
        Route(type="messages.media-update", read=updates.read_media_update),
        Route(type="message-receipt.update", read=updates.read_receipt),
        Route(type="messaging-history.set", fan=read_history),
        Route(type="messaging-history.status", read=session.read_history_marker),
        Route(type="contacts.set", read=directory.read_contact, member="contacts"),
        Route(type="contacts.upsert", read=directory.read_contact),
        Route(type="contacts.update", read=directory.read_contact),
        Route(type="chats.set", read=directory.read_chat, member="chats"),
        Route(type="chats.upsert", read=directory.read_chat),
        Route(type="chats.update", read=directory.read_chat),
        Route(type="chats.lock", read=directory.read_chat),
        Route(type="chats.delete", plain=True, read=directory.read_chat_delete),
        Route(type="chats.phoneNumberShare", read=directory.read_lid_mapping),
        Route(type="lid-mapping.update", read=directory.read_lid_mapping),
        Route(type="labels.edit", read=directory.read_label),
        Route(type="labels.association", read=directory.read_label_association),
        Route(type="blocklist.set", fan=directory.read_blocklist),
        Route(type="blocklist.update", fan=directory.read_blocklist),
        Route(type="settings.update", read=directory.read_setting),
        Route(type="groups.upsert", read=groups.read_group),
        Route(type="groups.update", read=groups.read_group),
        Route(type="groups.metadata", read=groups.read_group),
        Route(type="group-participants.update", read=groups.read_participants),
        Route(type="group.join-request", read=groups.read_join_request),
        Route(type="group.member-tag.update", read=groups.read_member_tag),
        Route(type="newsletter.reaction", read=groups.read_newsletter_reaction),
        Route(type="newsletter.view", read=groups.read_newsletter_view),
        Route(type="newsletter-participants.update", read=groups.read_newsletter_participant),
        Route(type="newsletter-settings.update", read=groups.read_group),
        Route(type="call", read=calls.read_call),
        Route(type="presence.update", read=calls.read_presence),
        Route(type="connection.update", read=session.read_connection),
        Route(type="creds.update", plain=True, read=session.read_secret),
        Route(type="message-capping.update", read=session.read_account_notice),
    ]
)


def read(body: object, *, path_instance: str | None = None) -> Reading:
    """Read one body; total over every JSON value. Occurrence is ``at`` + ``seq`` when the bot gives both."""
    fields = mapping(body)
    instance = fields.get("instance")
    named = instance if isinstance(instance, str) and instance else None
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
