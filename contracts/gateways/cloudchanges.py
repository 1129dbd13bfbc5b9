"""Walks a Cloud API body to its changes, and says what around an element is worth keeping with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from contracts.events import Path, Stamp
from contracts.gateways.body import stamp
from contracts.gateways.facts import Source
from contracts.gateways.shape import first_word, items, mapping, word
from contracts.times import as_datetime

_MEMBERS_MAX: Final = 16
_CHARS_MAX: Final = 500
_DEPTH_MAX: Final = 3
_INTEGER_MAX: Final = 1 << 64
"""Context is copied to every event of its change: what is larger than any real one stays out of it."""

_PEOPLE: Final = ("from", "from_user_id", "recipient_id", "recipient_user_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one entry, with what its facts have in common."""

    path: Path
    """Where its value lies."""
    value: object
    name: str | None
    """Meta's ``field``; None for what is no change at all: ``value`` is what stands in its place."""
    instance: str | None = None
    """phone_number_id, else the id of the WhatsApp Business account."""
    time: object = None
    """The entry's, for what has none of its own."""
    stamp: Stamp | None = None
    """The sender's own, for what has no time at all."""
    context: Mapping[str, Path] = field(default_factory=dict)

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


def read_changes(whole: Mapping[str, object]) -> Iterator[Change]:
    """Yield every change, and what stands in the place of one; an entry without any yields none."""
    own = stamp(whole.get("at"), whole.get("seq"))
    for entry_path, entry in items(whole.get("entry"), ("entry",)):
        account = mapping(entry)
        if "changes" not in account:
            yield Change(path=entry_path, value=entry, name=None, stamp=own)
            continue
        for path, item in items(account["changes"], (*entry_path, "changes")):
            change = mapping(item)
            if "value" not in change:
                yield Change(path=path, value=item, name=None, stamp=own)
                continue
            phone = mapping(mapping(change["value"]).get("metadata")).get("phone_number_id")
            yield Change(
                path=(*path, "value"),
                value=change["value"],
                name=word(change.get("field")) or "unknown",
                instance=first_word(phone, account.get("id")),
                time=account.get("time"),
                stamp=own,
                context={
                    **near(whole, (), ("object",)),
                    **near(account, entry_path, ("id", "time")),
                    **near(change, path, ("field",)),
                },
            )


def near(holder: Mapping[str, object], path: Path, names: tuple[str, ...]) -> dict[str, Path]:
    """Return where the named members lie, at most 16 that are small enough to be copied to each event."""
    small = [name for name in names if name in holder and _is_small(holder[name])]
    return {name: (*path, name) for name in small[:_MEMBERS_MAX]}


def read_people(change: Change) -> Mapping[str, Path]:
    """Return where the people of a change are described: by wa_id, by user_id, under "" if it is only one."""
    listed = mapping(change.value).get("contacts")
    contacts = list(items(listed, (*change.path, "contacts"))) if listed is not None else []
    small = [(path, contact) for path, contact in contacts if _is_small(contact)]
    people = {"": small[0][0]} if small and len(contacts) == 1 else {}
    for path, contact in small:
        names = (word(mapping(contact).get(name)) for name in ("wa_id", "user_id"))
        people.update({name: path for name in names if name is not None})
    return people


def person_of(element: Mapping[str, object], people: Mapping[str, Path]) -> dict[str, Path]:
    """Return the context "contact" of an element: whom it is from, or to."""
    names = [word(element.get(name)) or "" for name in _PEOPLE]
    found = next((people[name] for name in names if name in people), people.get(""))
    return {} if found is None else {"contact": found}


def _is_small(value: object, depth: int = _DEPTH_MAX) -> bool:
    if isinstance(value, str):
        return len(value) <= _CHARS_MAX
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        fits = depth > 0 and len(value) <= _MEMBERS_MAX
        return fits and all(_is_small(item, depth - 1) for item in inner)
    return not isinstance(value, int) or abs(value) < _INTEGER_MAX
