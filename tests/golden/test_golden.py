"""Each known body gives the rows that were written by hand, and shares them with the bodies it should."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass

import pytest

from contracts.cutting import cut
from contracts.events import KINDS, Event, Reading
from contracts.gateways import READERS
from contracts.identity import event_id, stamp_occurrence
from contracts.jsontext import decode, slice_at
from tests.golden.table import Entry, load_secrets, load_table

SIGNAL = "presence"
"""The kind that the capture policy counts instead of storing, unless it is asked to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A body and where it came in; what a golden entry also is."""

    family: str
    path_instance: str | None
    body: bytes


def read(entry: Entry | Body) -> Reading:
    return READERS[entry.family](decode(entry.body), path_instance=entry.path_instance)


def stored(reading: Reading) -> tuple[Event, ...]:
    return tuple(event for event in reading.events if event.kind != SIGNAL)


def identities(entry: Entry | Body, place: str) -> tuple[str, ...]:
    """The ids of one observation; ``place`` makes the collector's stamp, different for each."""
    reading = read(entry)
    return tuple(
        event_id(
            f"{entry.family}/{event.instance or reading.instance or entry.path_instance or ''}",
            event.kind,
            event.parts,
            stamp_occurrence(place, number) if event.needs_stamp else event.occurrence,
        )
        for number, event in enumerate(stored(reading))
    )


def by_name(entry: Entry) -> str:
    return f"{entry.table}/{entry.name}"


@pytest.mark.parametrize("entry", load_table(), ids=by_name)
def test_a_body_gives_its_rows(entry: Entry) -> None:
    reading = read(entry)
    counted = Counter(dict(reading.counted))
    counted["signal"] += len(reading.events) - len(stored(reading))
    assert tuple(event.kind for event in stored(reading)) == entry.kinds
    assert {event.kind for event in reading.events} <= KINDS, "a policy could not name it"
    assert +counted == Counter(entry.counted)


def test_bodies_share_a_row_exactly_when_the_table_says_so() -> None:
    rows_of_label: dict[str, set[str]] = defaultdict(set)
    labels_of_row: dict[str, set[str]] = defaultdict(set)
    for entry in load_table():
        for row, identity in zip(entry.rows, identities(entry, entry.name), strict=True):
            rows_of_label[row.label].add(identity)
            labels_of_row[identity].add(row.label)
    assert {label: rows for label, rows in rows_of_label.items() if len(rows) > 1} == {}
    assert {row: labels for row, labels in labels_of_row.items() if len(labels) > 1} == {}


def test_a_repetition_is_the_same_row_for_whatever_has_a_stamp_of_its_own() -> None:
    for entry in load_table("evolution", "recordings", "waha", "cloudapi"):
        assert identities(entry, "first") == identities(entry, "second"), entry.name


def test_the_webhook_and_the_broker_give_the_same_rows() -> None:
    for entry in load_table("evolution", "recordings"):
        members = json.loads(entry.body)
        other = {"server_url": "https://outro.exemplo.test", "apikey": "OUTRA-CHAVE-INVENTADA"}
        kept = {name: value for name, value in members.items() if name not in ("destination", "sender")}
        moved = json.dumps(dict(reversed((kept | other).items()))).encode()
        broker = Body(family=entry.family, path_instance=entry.path_instance, body=moved)
        assert identities(broker, "x") == identities(entry, "x"), entry.name


@pytest.mark.parametrize("entry", load_table(), ids=by_name)
def test_each_event_points_into_its_body_and_no_secret_survives_the_cut(entry: Entry) -> None:
    reading = read(entry)
    secrets = load_secrets(entry.table)
    for event in reading.events:
        assert (event.path is None) != (event.payload is None)
        assert 0 < len(event.type) <= 100
        if event.path is not None:
            payload, _ = cut(slice_at(entry.body, event.path), event.cuts)
        else:
            payload = event.payload or b""
        text = payload.decode()
        assert [secret for secret in secrets if secret in text] == []
    envelope, _ = cut(entry.body, (reading.data_path, *reading.cuts) if reading.data_path else reading.cuts)
    assert [secret for secret in secrets if secret in envelope.decode()] == []
