"""Reads Meta's Cloud API bodies: entries, their changes, and in each messages, statuses, errors or a notice.

An element lies deep in the body, so each event names its own context: what stands around it. Source:
gateways.md §6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from contracts.canonical import content_hash
from contracts.events import OCCURRENCE, Event, Fold, Path, Reading
from contracts.gateways.cloudchanges import Change, near, person_of, read_changes, read_people
from contracts.gateways.cloudmessages import read_message, read_status
from contracts.gateways.facts import EMPTY, Source, changed, subject_of
from contracts.gateways.shape import items, mapping, word

_READERS: Final[Mapping[str, Callable[[Source, Path, object], Event]]] = {
    "messages": read_message,
    "message_echoes": partial(read_message, from_me=True),
    "statuses": read_status,
}
_ERRORS: Final = "errors"
_HISTORY: Final = "history"
_FRAME: Final = frozenset({"messaging_product", "metadata"})
"""Members of a change's value that say nothing by themselves."""


def read(body: object, *, path_instance: str | None = None) -> Reading:
    """Return the facts of one body, of all entries and changes. Total: what is not known is kind unknown.

    The reading's instance is the first change's; an event of another phone number names its own.
    """
    whole = mapping(body)
    changes = list(read_changes(whole)) if "entry" in whole else []
    if all(change.name is None for change in changes) and (changes or "entry" not in whole):
        name = word(whole.get("object")) or "unknown"
        source = Source(type=name, instance=path_instance or "", dialect="cloud")
        return Reading(instance=None, events=(source.notice("unknown", body, path=()),))
    first = next((change.instance for change in changes if change.name is not None), None)
    found = [(change, list(_facts(change))) for change in changes]
    empty = sum(1 for _, facts in found if not facts) + (not changes)
    events = tuple(
        event if change.instance in (None, first) else replace(event, instance=change.instance)
        for change, facts in found
        for event in facts
    )
    return Reading(instance=first, events=events, counted=((EMPTY, empty),) if empty else ())


def _facts(change: Change) -> Iterator[Event]:
    """The elements of a change, one event each; a change without any is a notice as a whole."""
    if change.name is None:
        yield change.source("unknown").notice("unknown", change.value, path=change.path)
        return
    value = mapping(change.value)
    beside = sorted(value.keys() - _READERS.keys() - {"contacts", _ERRORS, _HISTORY})
    around = {**change.context, **near(value, change.path, tuple(beside))}
    elements = list(_elements(change, around))
    yield from elements
    if not elements and (set(beside) - _FRAME or not value.keys() & {*_READERS, _ERRORS}):
        notice = _notice(change.source(change.name), change.value, change.path)
        yield replace(notice, context=change.context)
    elif elements:
        large = (name for name in beside if name not in around)
        for name in large:
            yield replace(_notice(change.source(name), value[name], (*change.path, name)), context=around)


def _elements(change: Change, around: Mapping[str, Path]) -> Iterator[Event]:
    people = read_people(change)
    for name, reader in _READERS.items():
        for path, element in _array(change, name):
            said = mapping(element)
            event = reader(change.source(name, said.get("timestamp")), path, element)
            yield replace(event, context={**around, **person_of(said, people)})
    for path, error in _array(change, _ERRORS):
        yield replace(_notice(change.source(_ERRORS), error, path), context=around)
    for path, chunk in _array(change, _HISTORY):
        yield from _history(change, path, chunk, around)


def _history(change: Change, path: Path, chunk: object, around: Mapping[str, Path]) -> Iterator[Event]:
    """The messages of a chunk (``to`` is said of our own only); of one without any what it says instead."""
    told = False
    for thread_path, thread in items(mapping(chunk).get("threads"), (*path, "threads")):
        for place, message in items(mapping(thread).get("messages"), (*thread_path, "messages")):
            said = mapping(message)
            if not said:
                continue
            told = True
            source = change.source(_HISTORY, said.get("timestamp"))
            progress = near(mapping(chunk), path, ("metadata",)).get("metadata")
            context = around if progress is None else {**around, _HISTORY: progress}
            yield replace(read_message(source, place, message, from_me="to" in said), context=context)
    if not told:
        yield replace(_notice(change.source(_HISTORY), chunk, path), context=around)


def _array(change: Change, name: str) -> Iterator[tuple[Path, object]]:
    value = mapping(change.value).get(name)
    if value is not None:
        yield from items(value, (*change.path, name))


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
