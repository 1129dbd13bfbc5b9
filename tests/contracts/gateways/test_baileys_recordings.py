"""The 56 cases recorded from real Baileys: fed in order, each holds as many rows as its index says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from contracts.gateways import baileys
from tests.contracts.gateways.collecting import Collector

RECORDINGS: Final = Path(__file__).resolve().parent / "fixtures" / "baileys"
CASES: Final[dict[str, dict[str, object]]] = json.loads((RECORDINGS / "index.json").read_text("utf-8"))[
    "cases"
]


def bodies_of(name: str, root: Path = RECORDINGS) -> list[bytes]:
    """The bodies of a case in the order they were recorded."""
    return [path.read_bytes() for path in sorted((root / name).glob("*.json"))]


def fed(name: str) -> Collector:
    """A fresh collector that has seen a whole case."""
    collector = Collector(read=baileys.read, scope="baileys/x")
    collector.feed_all(bodies_of(name))
    return collector


@pytest.mark.parametrize("name", CASES)
def test_a_case_holds_its_rows(name: str) -> None:
    case = CASES[name]
    collector = fed(name)
    kinds = Counter(collector.kinds())
    low, high, by_kind = case["min"], case["max"], case.get("by_kind", {})
    assert isinstance(low, int)
    assert isinstance(high, int)
    assert isinstance(by_kind, dict)
    assert low <= len(collector.rows) <= high, (kinds, case["why"])
    assert {kind: kinds[kind] for kind in by_kind} == by_kind
    assert kinds["unknown"] == 0


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name]["rows"] == CASES[name]["min"] == 1])
def test_a_case_of_one_fact_is_one_row_in_any_order_and_twice(name: str) -> None:
    bodies = bodies_of(name)
    for order in (bodies, bodies[::-1], bodies + bodies, bodies[1:] + bodies[:1]):
        collector = Collector(read=baileys.read, scope="baileys/x")
        collector.feed_all(order)
        high = CASES[name]["max"]
        assert isinstance(high, int)
        assert 1 <= len(collector.rows) <= high


@pytest.mark.parametrize("name", [name for name in CASES if "must_not_contain" in CASES[name]])
def test_a_case_keeps_its_secret(name: str) -> None:
    collector = fed(name)
    kept = b"\n".join(row.payload + (row.envelope or b"") for row in collector.rows.values())
    secrets = CASES[name]["must_not_contain"]
    assert isinstance(secrets, list)
    assert any(secret.encode() in body for secret in secrets for body in bodies_of(name))
    assert [secret for secret in secrets if secret.encode() in kept] == []


def test_the_index_and_the_folders_agree() -> None:
    folders = {path.parent.relative_to(RECORDINGS).as_posix() for path in RECORDINGS.rglob("*/*/*.json")}
    assert folders == set(CASES)
    assert len(CASES) == 56


def test_a_drained_edit_stays_one_message_and_its_time_is_doubtful() -> None:
    collector = Collector(read=baileys.read, scope="baileys/x")
    drained = bodies_of("same/edit-absorbed-by-buffer")[-1]
    collector.feed(drained)
    message, edit = collector.rows.values()
    assert (message.kind, edit.kind) == ("message", "message.edit")
    assert message.event.flags == ("time_doubtful",)
    assert edit.event.flags == ()


def test_a_second_copy_with_other_content_shows_by_its_digest() -> None:
    live, _, drained = bodies_of("same/edit-absorbed-by-buffer")
    first = Collector(read=baileys.read)
    second = Collector(read=baileys.read)
    assert first.feed(live)[0] == second.feed(drained)[0]
    digests = {next(iter(collector.rows.values())).event.digest for collector in (first, second)}
    assert len(digests) == 2
    assert all(isinstance(digest, bytes) and len(digest) == 16 for digest in digests)


def test_a_merged_receipt_is_its_first_fact_and_a_small_payload() -> None:
    collector = Collector(read=baileys.read)
    collector.feed(bodies_of("same/receipt-group-merged-by-buffer")[-1])
    delivered, read = collector.rows.values()
    assert delivered.event.path == ("data", 0)
    assert json.loads(read.payload)["receipt"] == {
        "userJid": "100000000000003@lid",
        "readTimestamp": 1764950460,
    }
    assert (delivered.event.parts[-1], read.event.parts[-1]) == ("delivered", "read")


def test_the_history_keeps_what_its_chunk_said() -> None:
    collector = Collector(read=baileys.read)
    collector.feed(bodies_of("same/history-chunk-redelivered")[0])
    (row,) = collector.rows.values()
    assert row.event.context["progress"] == ("data", "progress")
    assert row.event.context["event"] == ("event",)
