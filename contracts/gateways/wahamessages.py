"""WAHA's facts about messages: content, status, receipts, reactions, edits, revokes, votes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from contracts.blobref import BlobRef
from contracts.digest import content_digest
from contracts.events import OCCURRENCE, Event, Part, Path
from contracts.gateways.content import blob_facts, cut_blobs
from contracts.gateways.facts import Source
from contracts.gateways.keys import (
    MessageKey,
    id_flags,
    message_parts,
    moment_part,
    own_parts,
    reaction_parts,
)
from contracts.gateways.shape import first_word, mapping, word
from contracts.gateways.wahakeys import read_key, split_id
from contracts.jids import person
from contracts.status import canonical_status, status_rank

PAYLOAD: Final[Path] = ("payload",)

_ABOUT: Final = frozenset(
    {
        "_data",
        "ack",
        "ackName",
        "from",
        "fromMe",
        "id",
        "me",
        "media",
        "mediaUrl",
        "participant",
        "replyTo",
        "source",
        "timestamp",
        "to",
    }
)
"""Members of a message that are about it: not what it says, or other from engine to engine."""

_CIPHERTEXT: Final = "stub:2"
_RECEIPTS: Final = {"DELIVERY_ACK": "delivered", "READ": "read", "PLAYED": "played"}
_SERVER_ACK: Final = 2


def stable(element: Mapping[str, object]) -> dict[str, object]:
    """Return an element without what differs from engine to engine or tells only when."""
    return {name: value for name, value in element.items() if name not in ("_data", "timestamp")}


def read_message(source: Source, message: Mapping[str, object]) -> Iterator[Event]:
    """Read message and message.any: content, and what the element tells besides (status, media)."""
    key = read_key(message)
    digest = content_digest(_content(message))
    yield _message(source, message, key, kind="message", variant="content", digest=digest)
    if key.id is None:
        return
    status = _status(message)
    if key.from_me and (status_rank(status) or 0) >= _SERVER_ACK:
        small: dict[str, object] = {"key": key.as_payload(), "status": status}
        yield _fact(source, message, "message.status", (key.id, status, None), key.chat, small=small)
    for form, sha256, media, cut in _media(message):
        small = {"key": key.as_payload(), "media": media}
        yield _fact(
            source, message, "message.media", (key.id, sha256, form), key.chat, small=small, blobs=cut
        )


def read_waiting(source: Source, message: Mapping[str, object]) -> Iterator[Event]:
    """Read message.waiting: WhatsApp announced a message that could not be decrypted (yet)."""
    yield _message(source, message, read_key(message), kind="message.stub", variant=_CIPHERTEXT, digest=None)


def read_ack(source: Source, ack: Mapping[str, object]) -> Iterator[Event]:
    """Read message.ack: how far the message as a whole got."""
    key = read_key(ack)
    parts = own_parts(key.id, "message.status", stable(ack), _status(ack), None)
    yield _fact(source, ack, "message.status", parts, key.chat)


def read_group_ack(source: Source, ack: Mapping[str, object]) -> Iterator[Event]:
    """Read message.ack.group: how far it got with one member (the id may name its sender: ourselves)."""
    key = read_key(ack)
    status = _status(ack)
    kind = _RECEIPTS.get(status, status.lower())
    who = person(ack.get("participant")) or key.author
    parts = own_parts(key.id, "message.receipt", stable(ack), who, kind)
    yield _fact(source, ack, "message.receipt", parts, key.chat)


def read_reaction(source: Source, message: Mapping[str, object]) -> Iterator[Event]:
    """Read message.reaction; the emoji "" is a removal."""
    key = read_key(message)
    reaction = mapping(message.get("reaction"))
    target = split_id(reaction.get("messageId")).id
    parts = reaction_parts(key, target, reaction.get("text"), message.get("timestamp"))
    yield _fact(source, message, "reaction", parts, key.chat)


def read_edit(source: Source, message: Mapping[str, object]) -> Iterator[Event]:
    """Read message.edited; without its target it tells nothing of which edit it is."""
    target = split_id(message.get("editedMessageId")).id
    if target is None:
        return
    moment = moment_part(message.get("timestamp"))
    kind = "message.edit.echo" if moment is OCCURRENCE else "message.edit"
    parts = (target, content_digest(_content(message)).hex(), moment)
    yield _fact(source, message, kind, parts, read_key(message).chat)


def read_revoke(source: Source, revoke: Mapping[str, object]) -> Iterator[Event]:
    """Read message.revoked: its target, else the message before, else the carrier's own id."""
    after, before = mapping(revoke.get("after")), mapping(revoke.get("before"))
    carrier, old = read_key(after), read_key(before)
    target = split_id(revoke.get("revokedMessageId")).id or old.id or carrier.id or read_key(revoke).id
    parts = own_parts(target, "message.revoke", stable(revoke))
    yield _fact(source, after, "message.revoke", parts, carrier.chat or old.chat)


def read_vote(source: Source, payload: Mapping[str, object]) -> Iterator[Event]:
    """Read poll.vote; one that could not be decrypted must not hide the readable one of the same id."""
    vote = mapping(payload.get("vote"))
    key = read_key(vote)
    variant: tuple[Part, ...] = ("failed",) if source.type.endswith(".failed") else ()
    parts = own_parts(key.id, "poll.vote", stable(payload), *variant)
    yield _fact(source, vote, "poll.vote", parts, key.chat or read_key(mapping(payload.get("poll"))).chat)


def _fact(
    source: Source,
    told: Mapping[str, object],
    kind: str,
    parts: Sequence[Part],
    chat: str | None,
    *,
    small: Mapping[str, object] | None = None,
    digest: bytes | None = None,
    flags: tuple[str, ...] = (),
    blobs: tuple[BlobRef, ...] = (),
) -> Event:
    """A fact at the time that ``told`` gives; the whole payload is its element unless it has a small one."""
    return source.fact(
        kind,
        parts,
        chat=chat,
        path=PAYLOAD if small is None else None,
        payload=small,
        time=told.get("timestamp"),
        time_from="message",
        digest=digest,
        flags=flags,
        blobs=blobs,
    )


def _message(
    source: Source,
    message: Mapping[str, object],
    key: MessageKey,
    *,
    kind: str,
    variant: str,
    digest: bytes | None,
) -> Event:
    told = {"messageTimestamp": message.get("timestamp"), "message": _content(message)}
    flags = id_flags(key.id)
    parts = message_parts(key, variant, told)
    return _fact(source, message, kind, parts, key.chat, digest=digest, flags=flags)


def _content(message: Mapping[str, object]) -> dict[str, object]:
    """What the message says, in WhatsApp's own form where it is text (one digest for all carriers)."""
    body = message.get("body")
    if isinstance(body, str) and body:
        return {"conversation": body}
    return {name: value for name, value in message.items() if name not in _ABOUT}


def _status(element: Mapping[str, object]) -> str:
    ack = element.get("ack")
    return canonical_status(element.get("ackName") if ack is None else ack, "waha")


def _media(
    message: Mapping[str, object],
) -> Iterator[tuple[str, str | None, dict[str, object], tuple[BlobRef, ...]]]:
    """What WAHA itself added: (form, sha256 of the bytes, what the small payload says of it, cut out)."""
    media = mapping(message.get("media"))
    about: dict[str, object] = {name: media[name] for name in ("mimetype", "filename") if media.get(name)}
    blob, link = word(media.get("data")), first_word(media.get("url"), message.get("mediaUrl"))
    if blob is not None:
        sha256, count = blob_facts(blob)
        yield "blob", sha256, {"sha256": sha256, "bytes": count, **about}, cut_blobs(blob)
    if link is not None:
        yield "link", None, {"link": link, **about}, ()
