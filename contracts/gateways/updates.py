"""What happens to a message later: status, edit, revoke, flag, receipt, local delete, reaction event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from contracts.canonical import content_hash
from contracts.events import OCCURRENCE, Event, Fold, Part, Path
from contracts.gateways.content import has_content, message_secrets
from contracts.gateways.element import reaction_fact, status_word, stub_fact, stub_word
from contracts.gateways.facts import Seen, Source, changed, subject_of
from contracts.gateways.keys import MessageKey, id_flags, own_parts, read_key
from contracts.gateways.protocol import Carrier, edit_echo, revoke_fact
from contracts.gateways.shape import first_word, mapping, word
from contracts.jids import bare_jid, chat_class, person
from contracts.times import as_seconds

_FLAGS: Final = ("starred", "pollUpdates", "eventResponses")
_UPDATED: Final = (
    "message",
    "messageStubParameters",
    "messageStubType",
    "status",
    "pollUpdates",
    "starred",
)
"""What a flat update may say; the rest of it is its key and the gateway's own ids."""
_RECEIPTS: Final = (
    ("receiptTimestamp", "delivered"),
    ("readTimestamp", "read"),
    ("playedTimestamp", "played"),
)


def read_baileys_update(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield the facts of one ``{key, update}`` of Baileys' messages.update."""
    body = mapping(element)
    update = mapping(body.get("update"))
    key = read_key(body.get("key"))
    carrier = _carrier(path, key, update, ("update",))
    yield from _update(source, carrier, update, element, own=read_key(update.get("key")))


def read_evolution_update(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield the facts of one flat messages.update of Evolution (1.8: ``id``, 2.x: ``keyId``)."""
    body = mapping(element)
    if isinstance(body.get("update"), dict):
        yield from read_baileys_update(source, path, element)
        return
    inner = mapping(body.get("key"))
    flat = {name: inner.get(name, body.get(name)) for name in ("remoteJid", "fromMe", "participant")}
    key = read_key({**flat, "id": first_word(body.get("keyId"), inner.get("id"), body.get("id"))})
    known = {name: body[name] for name in _UPDATED if name in body}
    yield from _update(source, _carrier(path, key, known, ()), known, element, own=key)


def _carrier(path: Path, key: MessageKey, update: Mapping[str, object], at: Path) -> Carrier:
    cuts = tuple((*at, "message", *cut) for cut in message_secrets(update.get("message")))
    return Carrier(path=path, key=key, time=update.get("messageTimestamp"), cuts=cuts)


def _update(
    source: Source, carrier: Carrier, update: Mapping[str, object], element: object, *, own: MessageKey
) -> Iterator[Event]:
    stub = stub_word(update)
    if has_content(update.get("message"), beside_stub=stub != "none"):
        content = update["message"]
        yield edit_echo(source, carrier, target=carrier.key, content=content, element=element)
        return
    if stub == "1":
        fallback = Carrier(path=carrier.path, key=own, time=carrier.time, cuts=carrier.cuts)
        yield revoke_fact(source, fallback, target=carrier.key, element=element)
        return
    if stub != "none":
        yield stub_fact(source, carrier, update)
        return
    yield from _states(source, carrier, update, element)


def _states(
    source: Source, carrier: Carrier, update: Mapping[str, object], element: object
) -> Iterator[Event]:
    """Yield flags, then the status: the first is the element, and only a flag is never a duplicate."""
    status = status_word(source, update.get("status"))
    fields = [field for field in _FLAGS if update.get(field) not in (None, "", [], {})]
    if not fields and status is None:
        fields = ["update"]
    for place, field in enumerate(fields):
        value = update if field == "update" else update[field]
        yield flag_fact(source, carrier, field, value, first=place == 0)
    if status is not None:
        yield _status_fact(source, carrier, status, update, element, first=not fields)


def _status_fact(
    source: Source,
    carrier: Carrier,
    status: str,
    update: Mapping[str, object],
    element: object,
    *,
    first: bool,
) -> Event:
    key = carrier.key
    parameters = update.get("messageStubParameters")
    code = word(parameters[0]) if status == "ERROR" and isinstance(parameters, list) and parameters else None
    return source.fact(
        "message.status",
        own_parts(key.id, "message.status", element, status, code),
        chat=key.chat,
        path=carrier.path if first else None,
        payload=None if first else {"key": key.as_payload(), "status": status},
        time=carrier.time,
        flags=id_flags(key.id),
        cuts=carrier.cuts if first else (),
    )


def flag_fact(source: Source, carrier: Carrier, field: str, value: object, *, first: bool = True) -> Event:
    """Return a flag: target id, field, value, occurrence; not ``first``: it stands under another fact."""
    key = carrier.key
    said: Part = value if isinstance(value, bool) else content_hash("message.flag", value)
    return source.fact(
        "message.flag",
        (key.id, field, said, OCCURRENCE),
        chat=key.chat,
        path=carrier.path if first else None,
        payload=None if first else {"key": key.as_payload(), field: said},
        time=carrier.time,
        flags=id_flags(key.id),
        cuts=carrier.cuts if first else (),
        subject=subject_of(chat_class(key.chat), key.id, field),
        members=changed(said),
        fold=Fold.TRANSITION,
    )


def read_receipt(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a group receipt's facts: delivered, read and played in one element are one each."""
    body = mapping(element)
    receipt = mapping(body.get("receipt"))
    inner = mapping(body.get("key"))
    key = read_key(inner)
    names = [receipt.get("userJid")]
    if key.from_me:
        names += [
            inner.get(name) for name in ("participant", "participantAlt", "participantLid", "participantPn")
        ]
    who = person(*names)
    said = [(field, kind) for field, kind in _RECEIPTS if as_seconds(receipt.get(field)) is not None]
    for place, (field, kind) in enumerate(said or [("", "unknown")]):
        time = receipt.get(field)
        yield source.fact(
            "message.receipt",
            own_parts(key.id, "message.receipt", element, who, kind),
            chat=key.chat,
            path=path if place == 0 else None,
            payload=None
            if place == 0
            else {"key": key.as_payload(), "receipt": {"userJid": who, field: as_seconds(time)}},
            time=time,
            flags=id_flags(key.id),
        )


def read_local_delete(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a delete for me: of one message (its key), or of a whole chat (``{jid, all}``)."""
    body = mapping(element)
    chat = word(body.get("jid"))
    if chat is None:
        key = read_key(body)
        yield source.fact(
            "message.delete_local",
            own_parts(key.id, "message.delete_local", element),
            chat=key.chat,
            path=path,
            flags=id_flags(key.id),
        )
        return
    bare = bare_jid(chat)
    yield source.fact(
        "message.delete_local",
        (bare, "all", OCCURRENCE),
        chat=chat,
        path=path,
        subject=subject_of(bare, "all"),
        members=changed("all"),
        fold=Fold.TRANSITION,
    )


def read_evolution_delete(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield the revoke that each form of Evolution's messages.delete is: key, key + status, database row."""
    body = mapping(element)
    inner = mapping(body.get("key"))
    target = read_key(inner or body, body)
    if not inner and body.get("keyId") is not None:
        target = read_key({**body, "id": body["keyId"]})
    elif isinstance(element, str):
        target = read_key({"id": element})
    cuts = tuple(("message", *cut) for cut in message_secrets(body.get("message")))
    # The row's messageTimestamp is when the message was sent, not when it was deleted.
    yield revoke_fact(source, Carrier(path=path, cuts=cuts), target=target, element=element)


def read_reaction(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield one ``{key: target, reaction: {key: own, text, senderTimestampMs}}`` of messages.reaction."""
    body = mapping(element)
    said = mapping(body.get("reaction"))
    own = read_key(said.get("key"))
    carrier = Carrier(path=path, time=said.get("senderTimestampMs"))
    yield reaction_fact(source, carrier, own=own, target=read_key(body.get("key")), said=said)


def read_media_update(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield one answer to a request for media: a flag of its message."""
    body = mapping(element)
    answer = {name: value for name, value in body.items() if name != "key"}
    yield flag_fact(source, Carrier(path=path, key=read_key(body.get("key"))), "media", answer)
