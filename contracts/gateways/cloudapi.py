"""Reads Meta's Cloud API bodies: entries, their changes, and in each messages, statuses, errors or a notice.

An element lies deep in the body, so each event names its own context: what stands around it. Source:
gateways.md §6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from contracts.canonical import content_hash
from contracts.events import OCCURRENCE, Event, Fold, Path, Reading
from contracts.gateways.body import stamp
from contracts.gateways.cloudmessages import read_message, read_status
from contracts.gateways.facts import EMPTY, Occurrence, Source, changed, subject_of
from contracts.gateways.shape import first_word, items, mapping, word
from contracts.times import as_datetime

_READERS: Final[Mapping[str, Callable[[Source, Path, object], Event]]] = {
    "messages": read_message,
    "message_echoes": partial(read_message, from_me=True),
    "statuses": read_status,
}
_FRAME: Final = frozenset({"messaging_product", "metadata"})
"""Members of a change's value that are about its elements, not facts themselves."""

_CONTEXT_MEMBERS_MAX: Final = 16
_CONTEXT_CHARS_MAX: Final = 500
"""Context is copied to every event of its change: what is larger than any real one stays out of it."""
_INTEGER_MAX: Final = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one entry, with what its facts have in common."""

    path: Path
    """Of the change; its value is the member ``value``."""
    value: object
    field: str
    instance: str | None
    """phone_number_id, else the id of the WhatsApp Business account."""
    time: object
    """The entry's, for what has none of its own."""
    context: Mapping[str, Path]
    contacts: Mapping[str, Path]
    """Where each person of the change is described, by wa_id and by user_id."""

    stamp: Occurrence
    """The sender's own, for what has no time at all."""

    def source(self, name: str, timestamp: object = None) -> Source:
        """What an element's facts share; its occurrence is its own time, else the entry's."""
        moment = first_word(timestamp, self.time)
        return Source(
            type=name,
            instance=self.instance or "",
            dialect="cloud",
            occurrence=self.stamp if moment is None else moment,
            emitted_at=as_datetime(self.time),
        )

    @property
    def value_path(self) -> Path:
        """Where the facts lie."""
        return (*self.path, "value")


def read(body: object, *, path_instance: str | None = None) -> Reading:
    """Return the facts of one body, of all entries and changes. Total: what is not known is kind unknown.

    The reading's instance is the first change's; an event of another phone number names its own.
    """
    whole = mapping(body)
    if whole.get("entry") == []:
        return Reading(instance=None, counted=((EMPTY, 1),))
    changes = list(_changes(whole))
    if not changes:
        name = word(whole.get("object")) or "unknown"
        source = Source(type=name, instance=path_instance or "", dialect="cloud")
        return Reading(instance=None, events=(source.notice("unknown", body, path=()),))
    first = changes[0].instance
    events: list[Event] = []
    empty = 0
    for change in changes:
        found = list(_facts(change))
        empty += not found
        own = change.instance if change.instance != first else None
        events += (replace(event, instance=own) for event in found) if own else found
    return Reading(instance=first, events=tuple(events), counted=((EMPTY, empty),) if empty else ())


def _changes(whole: Mapping[str, object]) -> Iterator[Change]:
    for entry_path, entry in items(whole.get("entry"), ("entry",)):
        account = mapping(entry)
        for path, item in items(account.get("changes"), (*entry_path, "changes")):
            change = mapping(item)
            if "value" not in change:
                continue
            value = mapping(change["value"])
            phone = mapping(value.get("metadata")).get("phone_number_id")
            near = {
                **_near(whole, (), "object"),
                **_near(account, entry_path, "id", "time"),
                **_near(change, path, "field"),
            }
            yield Change(
                stamp=stamp(whole.get("at"), whole.get("seq")),
                path=path,
                value=change["value"],
                field=word(change.get("field")) or "unknown",
                instance=first_word(phone, account.get("id")),
                time=account.get("time"),
                context=near,
                contacts=dict(_contacts(value, (*path, "value", "contacts"))),
            )


def _facts(change: Change) -> Iterator[Event]:
    """The elements of a change, one event each; a change without any is a notice as a whole."""
    value = mapping(change.value)
    beside = sorted(value.keys() - _READERS.keys() - {"contacts", "errors"})
    around = {**change.context, **_near(value, change.value_path, *beside[:_CONTEXT_MEMBERS_MAX])}
    found = False
    for name, reader in _READERS.items():
        for path, element in _elements(change, name):
            said = mapping(element)
            event = reader(change.source(name, said.get("timestamp")), path, element)
            found = True
            yield replace(event, context={**around, **_contact(change, said)})
    for path, error in _elements(change, "errors"):
        found = True
        yield replace(_notice(change.source("errors"), error, path), context=around)
    if not found and (set(beside) - _FRAME or not value.keys() & {*_READERS, "errors"}):
        notice = _notice(change.source(change.field), change.value, change.value_path)
        yield replace(notice, context=change.context)
        return
    for name in beside:
        if name not in _FRAME and not _is_small(value[name]):
            yield replace(
                _notice(change.source(name), value[name], (*change.value_path, name)), context=around
            )


def _notice(source: Source, element: object, path: Path) -> Event:
    """What Meta tells of the account; a repetition without a time of its own is skipped."""
    hashed = content_hash("account.notice", element)
    return source.fact(
        "account.notice",
        (source.type, hashed, OCCURRENCE),
        path=path,
        subject=subject_of(source.type),
        members=changed(hashed),
        fold=Fold.TRANSITION,
    )


def _elements(change: Change, name: str) -> Iterator[tuple[Path, object]]:
    value = mapping(change.value)
    if value.get(name) is not None:
        yield from items(value[name], (*change.value_path, name))


def _contact(change: Change, element: Mapping[str, object]) -> dict[str, Path]:
    """The description of the person that an element is about."""
    names = ("from", "from_user_id", "recipient_id", "recipient_user_id")
    paths = (change.contacts.get(word(element.get(name)) or "") for name in names)
    found = next((path for path in paths if path is not None), None)
    return {} if found is None else {"contact": found}


def _contacts(value: Mapping[str, object], path: Path) -> Iterator[tuple[str, Path]]:
    for place, item in items(value.get("contacts"), path):
        for name in ("wa_id", "user_id"):
            known = word(mapping(item).get(name))
            if known is not None and _is_small(item):
                yield known, place


def _near(holder: Mapping[str, object], path: Path, *names: str) -> dict[str, Path]:
    return {name: (*path, name) for name in names if name in holder and _is_small(holder[name])}


def _is_small(value: object, depth: int = 3) -> bool:
    """True for what may be copied to each event: short text, numbers, small objects of these."""
    if isinstance(value, str):
        return len(value) <= _CONTEXT_CHARS_MAX
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        fits = depth > 0 and len(value) <= _CONTEXT_MEMBERS_MAX
        return fits and all(_is_small(item, depth - 1) for item in inner)
    return not isinstance(value, int) or abs(value) < _INTEGER_MAX
