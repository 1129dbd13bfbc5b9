"""A gateway's body becomes rows as at a collector: same readers, same ids, same cuts. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from contracts.events import Event
from contracts.scopes import Source
from contracts.translation import Arrival, Rules, Translation, fixed_id, translate
from ingest.problems import UNSTAMPED, ProblemError
from ingest.reading import read_event
from ingest.row import Row

TELLS_AT_AND_SEQ: Final = frozenset({"baileys"})
"""Families whose sender is the operator's own program: it can be asked for a stamp, and reads the answer."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One fact, as a collector would post it."""

    event_id: str | None
    """None when it happened without an id and without a stamp."""
    source: Source
    scope: str
    body: bytes


def read_facts(arrival: Arrival, rules: Rules) -> Translation[Fact]:
    """The facts of one body, each with its id. Raises ProblemError (422) where a program left out its stamp.

    There is no collector to stamp what a gateway did not. What it can say no stamp for is told by the
    content of its body: sent again it is the same fact, and so is the same body of another time.
    """
    translation = translate(arrival, rules, _keep)
    if all(fact.event_id is not None for fact in translation.captured):
        return translation
    is_misread = any("reader_error" in counts for counts in translation.counted.values())
    if arrival.gateway.family in TELLS_AT_AND_SEQ and not is_misread:
        raise ProblemError(
            UNSTAMPED, "A fact without an id needs at (a time) and seq (a number) in the body."
        )
    content = ("body", hashlib.sha256(arrival.raw).hexdigest())
    return translate(replace(arrival, occurrence=content), rules, _keep)


def scopes_of(translation: Translation[Fact]) -> dict[Source, str]:
    """What each instance's facts were read under."""
    return {fact.source: fact.scope for fact in translation.captured}


def read_rows(translation: Translation[Fact]) -> Iterator[tuple[Fact, Row]]:
    """The facts as rows of the lake."""
    for fact in translation.captured:
        yield fact, read_event(fact.body, event_id=fact.event_id, collector=None)


def told(translation: Translation[Fact]) -> Mapping[str, int]:
    """What made no row, and oddities, summed over the instances."""
    sums: dict[str, int] = {}
    for counts in translation.counted.values():
        for reason, count in counts.items():
            sums[reason] = sums.get(reason, 0) + count
    return sums


def _keep(arrival: Arrival, source: Source, scope: str, event: Event, body: bytes) -> Fact:
    return Fact(event_id=fixed_id(scope, event, arrival.occurrence), source=source, scope=scope, body=body)
