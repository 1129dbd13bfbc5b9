"""A WhatsApp message element as Evolution and Baileys hand it on: the fact it states, and its second ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contracts.blobref import BlobRef
from contracts.canonical import content_hash
from contracts.digest import content_digest
from contracts.events import Event, Part, Path
from contracts.gateways.content import (
    blob_facts,
    cut_blobs,
    has_content,
    message_secrets,
)
from contracts.gateways.facts import TIME_DOUBTFUL, Seen, Source
from contracts.gateways.keys import MessageKey, id_flags, message_parts, moment_part, reaction_parts, read_key
from contracts.gateways.protocol import Carrier, protocol_fact
from contracts.gateways.shape import mapping, word
from contracts.status import canonical_status, status_rank, stub_number
from contracts.times import as_seconds
from contracts.wrappers import file_sha256, unwrap

_ACKNOWLEDGED = 2
"""Rank of SERVER_ACK."""
_DELIVERED = 3


def read_element(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield the facts of one message element."""
    return _read(source, path, element, drained=False)


def read_drained_element(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield the facts of an element from a restart's merged buffer: a receipt may have set its time."""
    return _read(source, path, element, drained=True)


def _read(source: Source, path: Path, element: object, *, drained: bool) -> Iterator[Seen]:
    body = mapping(element)
    if not isinstance(body.get("key"), dict) and "message" not in body and "messageStubType" not in body:
        yield source.notice("unknown", element, path=path)
        return
    message = body.get("message")
    inner, inner_path = unwrap(message)
    key = read_key(body.get("key"), body)
    carrier = Carrier(
        path=path,
        key=key,
        time=body.get("messageTimestamp"),
        cuts=tuple(("message", *cut) for cut in message_secrets(message)),
    )
    fact = _stated(source, carrier, inner, element)
    if fact is not None:
        yield fact
    elif has_content(message, beside_stub=stub_word(body) != "none"):
        doubtful = "editedMessage" in inner_path or (drained and _rank(source, body) >= _DELIVERED)
        yield _message(source, carrier, body, doubtful=doubtful)
        yield from _second_facts(source, key, body)
    else:
        yield stub_fact(source, carrier, body)


def _stated(source: Source, carrier: Carrier, inner: Mapping[str, object], element: object) -> Event | None:
    """Return the fact that the message states about another one, if it does."""
    reaction = inner.get("reactionMessage")
    if isinstance(reaction, dict):
        return reaction_fact(
            source, carrier, own=carrier.key, target=read_key(reaction.get("key")), said=reaction
        )
    if isinstance(inner.get("pollUpdateMessage"), dict):
        return _poll_vote(source, carrier, mapping(inner["pollUpdateMessage"]))
    protocol = inner.get("protocolMessage")
    if isinstance(protocol, dict):
        return protocol_fact(source, carrier, protocol)
    return None


def _message(source: Source, carrier: Carrier, body: Mapping[str, object], *, doubtful: bool) -> Event:
    parts = message_parts(carrier.key, "content", body)
    digest = content_digest(body.get("message"))
    return _own_fact(
        source, carrier, "message", parts, digest=digest, more=(TIME_DOUBTFUL,) if doubtful else ()
    )


def stub_fact(source: Source, carrier: Carrier, body: Mapping[str, object]) -> Event:
    """Return an element without content: what WhatsApp shows in a message's place."""
    parts = message_parts(carrier.key, f"stub:{stub_word(body)}", body)
    return _own_fact(source, carrier, "message.stub", parts)


def _own_fact(
    source: Source,
    carrier: Carrier,
    kind: str,
    parts: tuple[Part, ...],
    *,
    digest: bytes | None = None,
    more: tuple[str, ...] = (),
) -> Event:
    """The element itself as a fact: known by its own key, told when it says; ``more``: further flags."""
    return source.fact(
        kind,
        parts,
        chat=carrier.key.chat,
        path=carrier.path,
        time=carrier.time,
        time_from="message",
        digest=digest,
        flags=(*id_flags(carrier.key.id), *more),
        cuts=carrier.cuts,
    )


def stub_word(body: Mapping[str, object]) -> str:
    """Return the stub's number, the name of one that is newer than the table, or "none"."""
    name = word(body.get("messageStubType"))
    number = stub_number(name)
    return str(number) if number is not None else name or "none"


def reaction_fact(
    source: Source, carrier: Carrier, *, own: MessageKey, target: MessageKey, said: Mapping[str, object]
) -> Event:
    """Return a reaction: its own id; without one target, person, emoji or "", sender time."""
    sent = said.get("senderTimestampMs")
    has_time = as_seconds(carrier.time) is not None
    return source.fact(
        "reaction",
        reaction_parts(own, target.id, said.get("text"), sent),
        chat=own.chat or target.chat,
        path=carrier.path,
        time=carrier.time if has_time else sent,
        time_from="message",
        flags=id_flags(own.id),
        cuts=carrier.cuts,
    )


def _poll_vote(source: Source, carrier: Carrier, vote: Mapping[str, object]) -> Event:
    parts: tuple[Part, ...] = (carrier.key.id,)
    if carrier.key.id is None:
        parts = (
            read_key(vote.get("pollCreationMessageKey")).id,
            carrier.key.author,
            content_hash("poll.vote", vote),
            moment_part(vote.get("senderTimestampMs")),
        )
    return _own_fact(source, carrier, "poll.vote", parts)


def _second_facts(source: Source, key: MessageKey, body: Mapping[str, object]) -> Iterator[Event]:
    if key.id is None:
        return
    if key.from_me and _rank(source, body) >= _ACKNOWLEDGED and body.get("category") != "peer":
        status = status_word(source, body.get("status"))
        yield source.fact(
            "message.status",
            (key.id, status, None),
            chat=key.chat,
            payload={"key": key.as_payload(), "status": status},
        )
    yield from _media(source, key, body.get("message"))


def _media(source: Source, key: MessageKey, message: object) -> Iterator[Event]:
    """Yield what the gateway added to a message: bytes (told by hash and count, never repeated) or a link."""
    members = mapping(message)
    blob, link = members.get("base64"), members.get("mediaUrl")
    if not (isinstance(blob, str) and blob) and not (isinstance(link, str) and link):
        return
    own = file_sha256(unwrap(message)[0])
    if isinstance(blob, str) and blob:
        blob_hash, blob_bytes = blob_facts(blob)
        media = {"sha256": blob_hash, "bytes": blob_bytes}
        cut = cut_blobs(blob)
        yield _media_fact(source, key, own.hex() if own else blob_hash, "blob", media, blobs=cut)
    if isinstance(link, str) and link:
        yield _media_fact(source, key, own.hex() if own else None, "link", {"link": link})


def _media_fact(
    source: Source,
    key: MessageKey,
    sha256: str | None,
    form: str,
    media: Mapping[str, object],
    *,
    blobs: tuple[BlobRef, ...] = (),
) -> Event:
    return source.fact(
        "message.media",
        (key.id, sha256, form),
        chat=key.chat,
        payload={"key": key.as_payload(), "media": media},
        blobs=blobs,
    )


def status_word(source: Source, value: object) -> str | None:
    """Return the canonical status; None when there is none."""
    plain = value if isinstance(value, float) else word(value)
    return None if plain is None else canonical_status(plain, source.dialect) or None


def _rank(source: Source, body: Mapping[str, object]) -> int:
    status = status_word(source, body.get("status"))
    return -1 if status is None else status_rank(status) or 0
