"""The golden table covers each fixture once, and says what becomes of it."""

from __future__ import annotations

from collections import Counter

from tests.golden.table import FIXTURES, TABLES, UNKNOWN_ALLOWED, load_secrets, load_table


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
