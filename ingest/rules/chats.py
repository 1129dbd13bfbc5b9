"""The chats of each account: name, first and last message, whether it was deleted (``lake.chats``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from contracts.gateways.shape import first_word, mapping, word
from contracts.inbox import LoggedEvent, Rule, Transaction
from contracts.jids import bare_jid, jid_kind
from ingest.rules.reading import document
from ingest.rules.statements import KEEP_CHATS

KINDS: Final = frozenset({"chat", "group.metadata", "message"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFact:
    """What is known of a chat after one event or several; what none of them told is None."""

    scope: str
    chat_jid: str
    """Bare; a person's chat may stand under a LID and under a phone (``lake.lid_pairs`` joins them)."""
    name: str | None = None
    named_at: datetime | None = None
    push_name: str | None = None
    push_named_at: datetime | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    last_event_id: UUID | None = None
    last_from_me: bool | None = None
    deleted_at: datetime | None = None


def decide(event: LoggedEvent) -> Sequence[ChatFact]:
    """What the event tells of its chat."""
    if event.scope is None or event.chat_jid is None:
        return ()
    at, body, chat_jid = (
        event.occurred_at or event.received_at,
        document(event.payload),
        bare_jid(event.chat_jid),
    )
    if event.kind == "message":
        key = mapping(body.get("key"))
        from_me = first_word(key.get("fromMe"), body.get("fromMe")) == "true"
        is_theirs = not from_me and jid_kind(chat_jid) in ("user", "lid")
        push_name = word(body.get("pushName")) if is_theirs else None
        fact = ChatFact(
            scope=event.scope,
            chat_jid=chat_jid,
            push_name=push_name,
            push_named_at=None if push_name is None else at,
            first_at=at,
            last_at=at,
            last_event_id=event.event_id,
            last_from_me=from_me,
        )
    elif event.type == "chats.delete":
        fact = ChatFact(scope=event.scope, chat_jid=chat_jid, deleted_at=at)
    else:
        name = first_word(body.get("name"), body.get("subject"), mapping(body.get("group")).get("subject"))
        fact = ChatFact(
            scope=event.scope, chat_jid=chat_jid, name=name, named_at=None if name is None else at
        )
    return (fact,)


def fold(facts: Sequence[ChatFact]) -> list[ChatFact]:
    """One fact a chat; each member is the latest that was told."""
    kept: dict[tuple[str, str], ChatFact] = {}
    for new in facts:
        key = (new.scope, new.chat_jid)
        old = kept.get(key)
        kept[key] = new if old is None else _joined(old, new)
    return list(kept.values())


def _joined(old: ChatFact, new: ChatFact) -> ChatFact:
    named = new if _is_newer(new.named_at, old.named_at) else old
    pushed = new if _is_newer(new.push_named_at, old.push_named_at) else old
    last = new if _is_newer(new.last_at, old.last_at) else old
    return ChatFact(
        scope=new.scope,
        chat_jid=new.chat_jid,
        name=named.name,
        named_at=named.named_at,
        push_name=pushed.push_name,
        push_named_at=pushed.push_named_at,
        first_at=min((at for at in (old.first_at, new.first_at) if at is not None), default=None),
        last_at=last.last_at,
        last_event_id=last.last_event_id,
        last_from_me=last.last_from_me,
        deleted_at=max((at for at in (old.deleted_at, new.deleted_at) if at is not None), default=None),
    )


def _is_newer(new: datetime | None, old: datetime | None) -> bool:
    return new is not None and (old is None or new >= old)


async def apply(transaction: Transaction, facts: Sequence[ChatFact]) -> None:
    """Write them."""
    folded = fold(facts)
    await transaction.execute(
        KEEP_CHATS,
        [fact.scope for fact in folded],
        [fact.chat_jid for fact in folded],
        [jid_kind(fact.chat_jid) for fact in folded],
        [fact.name for fact in folded],
        [fact.named_at for fact in folded],
        [fact.push_name for fact in folded],
        [fact.push_named_at for fact in folded],
        [fact.first_at for fact in folded],
        [fact.last_at for fact in folded],
        [fact.last_event_id for fact in folded],
        [fact.last_from_me for fact in folded],
        [fact.deleted_at for fact in folded],
    )


RULE: Final = Rule(name="chats", kinds=KINDS, decide=decide, apply=apply)
