"""What the account knows: chats, contacts, labels, blocked people, settings, which LID is which phone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from contracts.canonical import content_hash, member_hashes
from contracts.events import OCCURRENCE, Fold, Path
from contracts.gateways.body import Fanned, read_items
from contracts.gateways.content import message_secrets
from contracts.gateways.facts import EMPTY, Seen, Source, subject_of
from contracts.gateways.shape import first_word, jid, mapping, word
from contracts.jids import bare_jid, person

_INSTANCE_IDS: Final = frozenset({"instanceId", "instance", "owner"})
_CHAT_IDS: Final = frozenset({"id", "remoteJid"})
_CONTACT_IDS: Final = _CHAT_IDS


def read_chat(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a chat's state; one that carries nothing but its subject is counted as empty."""
    body = mapping(element)
    named = first_word(body.get("remoteJid"), body.get("id"))
    if set(body) <= _CHAT_IDS | _INSTANCE_IDS:
        yield EMPTY
    else:
        yield source.snapshot(
            "chat",
            None if named is None else bare_jid(named),
            element,
            path=path,
            chat=jid(body.get("remoteJid"), body.get("id")),
            cuts=_chat_secrets(body),
        )


def _chat_secrets(body: Mapping[str, object]) -> tuple[Path, ...]:
    """A flushed chats.update carries full copies of messages: keys of the account are cut there as well."""
    copies = body.get("messages")
    if not isinstance(copies, list):
        return ()
    return tuple(
        ("messages", index, "message", "message", *cut)
        for index, copy in enumerate(copies)
        for cut in message_secrets(mapping(mapping(copy).get("message")).get("message"))
    )


def read_chat_delete(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield the delete of a chat, given as its JID or as an object; what was kept of it is forgotten."""
    body = mapping(element)
    named = first_word(element, body.get("remoteJid"), body.get("id"))
    if named is None:
        yield source.notice("unknown", element, path=path)
        return
    subject = bare_jid(named)
    yield source.fact(
        "chat",
        (subject, content_hash("chat", {"id": subject, "deleted": True}), OCCURRENCE),
        chat=jid(named),
        path=path,
        subject=subject_of(subject),
        fold=Fold.CLEAR,
    )


def read_contact(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a contact's state; its subject is the person."""
    body = mapping(element)
    if set(body) <= _CONTACT_IDS | _INSTANCE_IDS:
        yield EMPTY
    else:
        names = [body.get(name) for name in ("remoteJid", "id", "lid", "phoneNumber", "jid")]
        chat = jid(*names)
        yield source.snapshot("contact", person(*names), element, path=path, chat=chat)


def read_label(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a label's state; one that does not say so is not deleted (it may have been before)."""
    body = mapping(element)
    state = source.snapshot("label", word(body.get("id")), element, path=path, chat=None)
    yield replace(state, members=member_hashes("label", {"deleted": False, **body}))


def read_label_association(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield a label put on or taken off a chat or a message; Baileys nests it, Evolution does not."""
    body = mapping(element)
    inner = mapping(body.get("association")) or body
    chat = word(inner.get("chatId"))
    subject = (
        None if chat is None else bare_jid(chat),
        word(inner.get("messageId")),
        word(inner.get("labelId")),
    )
    state = (word(body.get("type")),)
    yield source.transition("label.assoc", subject, state, element, path=path, chat=jid(chat))


def read_blocklist(source: Source, data: object) -> Fanned:
    """Read ``{blocklist, type?}``: one fact a JID; the action stands beside the list (a whole list adds)."""
    body = mapping(data)
    path: Path = ("data", "blocklist") if isinstance(body.get("blocklist"), list) else ("data",)
    action = word(body.get("type")) or "add"

    def read_blocked(source: Source, path: Path, element: object) -> Iterator[Seen]:
        who = person(element)
        if who is None:
            yield source.notice("unknown", element, path=path)
            return
        said = {"jid": who, "type": action}
        yield source.transition("blocklist", (who,), (action,), said, path=path, chat=jid(element))

    return Fanned(seen=read_items(read_blocked, source, body.get("blocklist", data), path), container=path)


def read_setting(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield one setting of the account."""
    name = word(mapping(element).get("setting"))
    yield source.snapshot("settings", name, element, path=path, chat=None)


def read_lid_mapping(source: Source, path: Path, element: object) -> Iterator[Seen]:
    """Yield which LID is which phone (6.7: chats.phoneNumberShare)."""
    lid = word(mapping(element).get("lid"))
    subject = None if lid is None else bare_jid(lid)
    yield source.snapshot("lid_mapping", subject, element, path=path, chat=None)
