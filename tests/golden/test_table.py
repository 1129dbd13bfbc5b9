"""The golden table covers each fixture once, and the fixtures are the shared payloads, byte for byte."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.golden.table import FIXTURES, SHARED, TABLES, UNKNOWN_ALLOWED, load_secrets, load_table

_RECORDED = ("webhook", "rabbitmq", "webhook-errors")


def test_every_fixture_stands_in_the_table_and_every_entry_has_its_fixture() -> None:
    fixtures = Counter(
        f"{table}/{path.relative_to(FIXTURES / table).as_posix()}"
        for table in TABLES
        for path in (FIXTURES / table).rglob("*.json")
    )
    assert Counter(f"{entry.table}/{entry.name}" for entry in load_table()) == fixtures


def test_every_entry_says_what_becomes_of_it() -> None:
    for entry in load_table():
        assert entry.rows or entry.counted, entry.name
        assert set(entry.counted) <= {"empty", "signal", "qr"}, entry.name
        assert len(set(entry.rows)) == len(entry.rows), entry.name
        assert "unknown" not in entry.kinds or f"{entry.table}/{entry.name}" in UNKNOWN_ALLOWED


def test_every_secret_is_in_some_fixture() -> None:
    for table in TABLES:
        bodies = "\n".join(entry.body.decode() for entry in load_table(table))
        assert [secret for secret in load_secrets(table) if secret not in bodies] == []


@pytest.mark.skipif(not (SHARED / "payloads").is_dir(), reason="no shared payloads beside the repository")
def test_the_fixtures_are_the_shared_payloads() -> None:
    for entry in load_table("evolution", "baileys", "waha", "cloudapi"):
        shared = SHARED / "payloads" / entry.table / entry.name
        assert shared.read_bytes() == entry.body, entry.name


@pytest.mark.skipif(not (SHARED / "recordings").is_dir(), reason="no shared recordings beside the repository")
def test_the_fixtures_are_the_bodies_of_the_shared_recordings() -> None:
    for entry in load_table("recordings"):
        shared = SHARED / "recordings" / "evolution" / Path(entry.name)
        assert json.loads(shared.read_bytes())["body"] == json.loads(entry.body), entry.name
    for kind in _RECORDED:
        assert (FIXTURES / "recordings" / kind).is_dir()
