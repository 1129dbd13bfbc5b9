"""The plans of the statements that run for each record: by an index, without a sort, without a scan."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from outbox import sqlite_blob_statements as blob_sql
from outbox import sqlite_statements as sql


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in (*sql.SCHEMA, sql.LEASES_SCHEMA, blob_sql.BLOB_LEASES_SCHEMA):
        connection.execute(statement)
    yield connection
    connection.close()


PARAMETERS = {
    "id": "a",
    "now": 1,
    "limit": 1,
    "lease": 1,
    "rowids": "[]",
    "pairs": "[]",
    "ahead": 1,
    "parked": 1,
    "due_at": 1,
    "spent": 1,
    "status": 1,
    "reason": "",
    "rowid": 1,
    "digest": b"",
    "channel": "",
}

HOT = {
    "CLAIM": [
        "SEARCH o USING INDEX outbox_due (due_at<?)",
        "USING ROWID SEARCH ON TABLE leases FOR IN-OPERATOR",
        "SEARCH i USING INTEGER PRIMARY KEY (rowid=?)",
    ],
    "HELD_BY": ["SCAN p VIRTUAL TABLE INDEX 1:", "SEARCH l USING INTEGER PRIMARY KEY (rowid=?)"],
    "SIZE": ["SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"],
    "TO_SEEN": ["SEARCH ids USING INTEGER PRIMARY KEY (rowid=?)"],
    "TO_DEAD": ["SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"],
    "DELETE": ["SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"],
    "UNLEASE": ["SEARCH temp.leases USING INTEGER PRIMARY KEY (rowid=?)"],
    "RETRY": ["SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"],
    "SIGHTING_AGAIN": ["SEARCH sightings USING PRIMARY KEY (id=? AND digest=? AND channel=?)"],
    "DUE_HEAL": ["SEARCH outbox USING INDEX outbox_due (due_at>? AND due_at<?)"],
    "OLDEST": ["SEARCH ids USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH outbox"],
}

POSITIONAL = {
    "NEXT_DUE": ["SEARCH outbox USING COVERING INDEX outbox_due (due_at<?)"],
    "KNOWN": ["SEARCH ids USING COVERING INDEX sqlite_autoindex_ids_1 (id=?)"],
    "LAST_READ": ["SEARCH last USING INDEX sqlite_autoindex_last_1 (key=?)"],
    "SIGHTING_CHANNELS": ["SEARCH sightings USING PRIMARY KEY (id=? AND digest=?)"],
    "SEEN_OLDEST": ["SEARCH ids USING COVERING INDEX ids_seen (seen_at>?)"],
    "DEAD_OLDEST": ["SEARCH dead USING INTEGER PRIMARY KEY (rowid<?)"],
    "DEAD_LIST": ["SEARCH d USING INTEGER PRIMARY KEY (rowid>?)"],
    "KEPT_WAITING": [
        "SEARCH o USING INTEGER PRIMARY KEY (rowid>?)",
        "SEARCH i USING INTEGER PRIMARY KEY (rowid=?)",
    ],
    "KEPT_DEAD": [
        "SEARCH d USING INTEGER PRIMARY KEY (rowid>?)",
        "SEARCH i USING INTEGER PRIMARY KEY (rowid=?)",
    ],
    "DEAD_SHOW": ["SEARCH d USING INDEX sqlite_autoindex_dead_1 (of=?)"],
    "DEAD_BY_ID": ["SEARCH dead USING COVERING INDEX sqlite_autoindex_dead_1 (of=?)"],
    "HELD_BEFORE": ["SEARCH held USING INDEX held_first (first_at<?)"],
    "IDS_SIGHTINGS_DELETE": [
        "SEARCH sightings USING PRIMARY KEY (id=? AND digest=?)",
        "SEARCH ids USING INTEGER PRIMARY KEY (rowid=?)",
    ],
}

BLOBS = {
    "KNOWN": ["SEARCH blobs USING COVERING INDEX sqlite_autoindex_blobs_1 (sha256=?)"],
    "STATE": ["SEARCH blobs USING INTEGER PRIMARY KEY (rowid=?)"],
    "CLAIM": ["SEARCH blobs USING INDEX blobs_due (due_at<?)"],
    "NEXT_DUE": ["SEARCH blobs USING COVERING INDEX blobs_due (due_at>?)"],
    "DUE_HEAL": ["SEARCH blobs USING INDEX blobs_due (due_at>? AND due_at<?)"],
    "STILL_WAITS": ["SEARCH blob_refs USING PRIMARY KEY (record=?)"],
    "UNPARK": ["SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"],
    "REFS_OF": ["SEARCH blob_refs USING PRIMARY KEY (record=?)"],
    "UNNEEDED": [
        "SEARCH blobs USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH blob_refs USING COVERING INDEX blob_refs_blob (blob=?)",
    ],
    "MOVE_REFS": ["SEARCH blob_refs USING PRIMARY KEY (record=?)"],
    "REFS_TO": ["SEARCH blob_refs USING COVERING INDEX blob_refs_blob (blob=?)"],
    "DEAD_LIST": ["SEARCH blobs USING INDEX blobs_dead (rowid>?)"],
    "BLOBS_OF": [
        "SEARCH r USING PRIMARY KEY (record=?)",
        "SEARCH b USING INTEGER PRIMARY KEY (rowid=?)",
    ],
}

SORTS_A_FEW = (POSITIONAL["DEAD_SHOW"][0], POSITIONAL["DEAD_BY_ID"][0])
"""The dead letters that somebody named."""


def plan(
    connection: sqlite3.Connection, statement: str, parameters: tuple[object, ...] | dict[str, Any]
) -> list[str]:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
    return [detail for _, _, _, detail in rows]


@pytest.mark.parametrize("name", HOT)
def test_named_statements_use_their_index(connection: sqlite3.Connection, name: str) -> None:
    _check(plan(connection, getattr(sql, name), PARAMETERS), HOT[name])


@pytest.mark.parametrize("name", POSITIONAL)
def test_positional_statements_use_their_index(connection: sqlite3.Connection, name: str) -> None:
    statement = getattr(sql, name)
    value = "[]" if "json_each" in statement else 1
    _check(plan(connection, statement, (value,) * statement.count("?")), POSITIONAL[name])


@pytest.mark.parametrize("name", BLOBS)
def test_statements_of_blobs_use_their_index(connection: sqlite3.Connection, name: str) -> None:
    statement = getattr(blob_sql, name)
    value = "[]" if "json_each" in statement else 1
    given = (
        (value,) * statement.count("?") if "?" in statement else PARAMETERS | {"of": 1, "to": 2, "record": 1}
    )
    _check(plan(connection, statement, given), BLOBS[name])


def _check(details: list[str], wanted: list[str]) -> None:
    for line in wanted:
        assert any(detail.startswith(line) for detail in details), details
    sorts = [detail for detail in details if "TEMP B-TREE" in detail]
    assert sorts == [] or wanted[0] in SORTS_A_FEW, details
    scans = [d for d in details if d.startswith("SCAN") and "VIRTUAL" not in d and "CONSTANT" not in d]
    assert [scan for scan in scans if not any(scan.startswith(line) for line in wanted)] == []
