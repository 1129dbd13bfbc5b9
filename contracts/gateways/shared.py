"""Events that Evolution hands on in the very shape that Baileys gave them: one way to read them for both."""

from __future__ import annotations

from typing import Final

from contracts.gateways import calls, directory, groups, session, updates
from contracts.gateways.body import Route

SHARED: Final = (
    Route(type="messages.reaction", read=updates.read_reaction),
    Route(type="messages.media-update", read=updates.read_media_update),
    Route(type="message-receipt.update", read=updates.read_receipt),
    Route(type="messaging-history.status", read=session.read_history_marker),
    Route(type="contacts.upsert", read=directory.read_contact),
    Route(type="contacts.update", read=directory.read_contact),
    Route(type="chats.upsert", read=directory.read_chat),
    Route(type="chats.update", read=directory.read_chat),
    Route(type="chats.delete", plain=True, read=directory.read_chat_delete),
    Route(type="lid-mapping.update", read=directory.read_lid_mapping),
    Route(type="labels.edit", read=directory.read_label),
    Route(type="labels.association", read=directory.read_label_association),
    Route(type="blocklist.set", fan=directory.read_blocklist),
    Route(type="blocklist.update", fan=directory.read_blocklist),
    Route(type="settings.update", read=directory.read_setting),
    Route(type="groups.upsert", read=groups.read_group),
    Route(type="groups.update", read=groups.read_group),
    Route(type="group-participants.update", read=groups.read_participants),
    Route(type="group.join-request", read=groups.read_join_request),
    Route(type="group.member-tag.update", read=groups.read_member_tag),
    Route(type="call", read=calls.read_call),
    Route(type="presence.update", read=calls.read_presence),
    Route(type="connection.update", read=session.read_connection),
    Route(type="creds.update", plain=True, read=session.read_secret),
)
