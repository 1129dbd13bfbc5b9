"""Every known body through a real ``zaplake up``: the lake holds the golden rows, whatever repeats or moves.

Each trial posts to a gateway (or a Baileys instance) of its own, which is a scope of its own.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx
import pytest

from tests.golden.table import Entry, load_secrets, load_table
from tests.zaplake.processes import rows, running

pytestmark = [pytest.mark.xdist_group("golden-up"), pytest.mark.timeout(300)]

STAMPED: Final = ("evolution", "recordings", "waha", "cloudapi")
"""Tables whose bodies carry a stamp of their own: order and repetition never matter."""
ORDERS: Final = 3
TRIALS_AT_ONCE: Final = 16
DRAIN_S_MAX: Final = 120.0
INDEX: Final = Path(__file__).parents[1] / "contracts" / "gateways" / "fixtures" / "baileys" / "index.json"
CASES: Final[dict[str, dict[str, Any]]] = json.loads(INDEX.read_text("utf-8"))["cases"]

ENTRIES: Final = load_table()
ALONE: Final = {f"alone-{number}": entry for number, entry in enumerate(ENTRIES)}
SHUFFLED: Final = {f"set-{order}-{table}": table for order in range(ORDERS) for table in STAMPED}
CASE_INSTANCES: Final = {f"case-{number}": name for number, name in enumerate(CASES)}


Trial: TypeAlias = "Sequence[tuple[str, bytes]]"
"""Paths below /gateways/ and what is posted there, in this order."""


class House:
    """A running ``up``, and what its lake held when every trial had been posted and shipped."""

    def __init__(self, data_dir: Path, log: Path, collector: str) -> None:
        self.data_dir, self.log = data_dir, log
        self.collector = collector
        self.kinds: dict[str, Counter[str]] = {}

    def post(self, trials: Iterable[Trial]) -> None:
        """The bodies of each trial one after the other, some trials at once; each must be accepted."""

        def post_in_order(trial: Trial) -> None:
            for path, body in trial:
                answer = client.post(f"/gateways/{path}", content=body)
                assert answer.status_code == 200, (path, answer.status_code, answer.text)

        with (
            httpx.Client(base_url=self.collector, timeout=30, trust_env=False) as client,
            ThreadPoolExecutor(TRIALS_AT_ONCE) as threads,
        ):
            for _ in threads.map(post_in_order, trials):
                pass

    def until_shipped(self) -> None:
        deadline = time.monotonic() + DRAIN_S_MAX
        while (outbox := httpx.get(f"{self.collector}/status", trust_env=False).json()["outbox"])["waiting"]:
            assert time.monotonic() < deadline, outbox
            time.sleep(0.05)
        assert (outbox["dead"], outbox["held"]) == (0, 0)

    def count_kinds(self) -> None:
        """Rows by trial and kind. A trial is a gateway, or an instance of the gateway ``cases``."""
        found = rows(
            self.data_dir,
            "SELECT CASE gateway WHEN 'cases' THEN instance ELSE gateway END AS trial, kind, count(*) AS n "
            "FROM lake.whatsapp_event_logs GROUP BY 1, 2",
        )
        for row in found:
            self.kinds.setdefault(row["trial"], Counter())[row["kind"]] = row["n"]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with tempfile.TemporaryDirectory(prefix="zl", ignore_cleanup_errors=True) as folder:
        yield from _fed(Path(folder))


def _fed(folder: Path) -> Iterator[House]:
    settings = folder / "zaplake.toml"
    settings.write_text("".join(_gateways()))
    options = ("--config", settings, "--data-dir", folder / "data", "--http-port", 0, "--collector-port", 0)
    with running("up", "--json", *options, log=folder / "up.log") as process:
        ready = process.wait_for("ready")
        house = House(folder / "data", folder / "up.log", ready["collector"])
        house.post((*_alone(), *_shuffled(), *_cases()))
        house.until_shipped()
        house.count_kinds()
        yield house


def _gateways() -> Iterator[str]:
    families = {name: entry.family for name, entry in ALONE.items()}
    families |= {name: load_table(table)[0].family for name, table in SHUFFLED.items()}
    for name, family in (families | {"cases": "baileys"}).items():
        yield f'[[gateways]]\nname = "{name}"\nfamily = "{family}"\n'


def _door(gateway: str, entry: Entry) -> str:
    return gateway if entry.path_instance is None else f"{gateway}/{entry.path_instance}"


def _alone() -> Iterator[Trial]:
    """Each body twice in a row."""
    for gateway, entry in ALONE.items():
        yield [(_door(gateway, entry), entry.body)] * 2


def _shuffled() -> Iterator[Trial]:
    """All bodies of a table in another order each time, the whole set twice."""
    for seed, (gateway, table) in enumerate(SHUFFLED.items()):
        entries = list(load_table(table))
        random.Random(seed).shuffle(entries)
        yield [(_door(gateway, entry), entry.body) for entry in entries * 2]


def _cases() -> Iterator[Trial]:
    for instance, name in CASE_INSTANCES.items():
        bodies = sorted((INDEX.parent / name).glob("*.json"))
        yield [(f"cases/{instance}", body.read_bytes()) for body in bodies]


def _golden(entries: Sequence[Entry]) -> Counter[str]:
    """Rows by kind: what shows one label is one row."""
    return Counter({row.label: row.kind for entry in entries for row in entry.rows}.values())


def _differing(expected: Mapping[str, Counter[str]], house: House) -> dict[str, Any]:
    """Trials whose rows are not the golden ones, with both."""
    found = {trial: house.kinds.get(trial, Counter()) for trial in expected}
    return {trial: (expected[trial], found[trial]) for trial in expected if expected[trial] != found[trial]}


def test_each_body_posted_twice_in_a_row_gives_its_golden_rows(house: House) -> None:
    differing = _differing({gateway: _golden([entry]) for gateway, entry in ALONE.items()}, house)
    named = {f"{ALONE[name].table}/{ALONE[name].name}": difference for name, difference in differing.items()}
    assert named == {}


def test_whole_sets_twice_in_any_order_give_the_golden_rows(house: House) -> None:
    expected = {gateway: _golden(load_table(table)) for gateway, table in SHUFFLED.items()}
    assert _differing(expected, house) == {}


@pytest.mark.parametrize("instance", CASE_INSTANCES, ids=CASE_INSTANCES.get)
def test_a_recorded_baileys_case_holds_its_rows(house: House, instance: str) -> None:
    case = CASES[CASE_INSTANCES[instance]]
    found = house.kinds.get(instance, Counter())
    assert case["min"] <= found.total() <= case["max"], (found, case["why"])
    by_kind = case.get("by_kind", {})
    assert {kind: found[kind] for kind in by_kind} == by_kind


def test_no_secret_is_in_the_outbox_the_lake_or_the_log(house: House) -> None:
    secrets = {secret for table in {entry.table for entry in ENTRIES} for secret in load_secrets(table)}
    secrets |= {secret for case in CASES.values() for secret in case.get("must_not_contain", ())}
    assert secrets
    posted = b"".join(body for trial in (*_alone(), *_cases()) for _, body in trial)
    assert [secret for secret in secrets if secret.encode() not in posted] == [], (
        "never posted: proves nothing"
    )
    files = [path for path in (house.data_dir / "outbox").iterdir() if path.is_file()]
    kept = b"".join(path.read_bytes() for path in (*files, house.log))
    assert [secret for secret in secrets if secret.encode() in kept] == []
    lake = "SELECT to_jsonb(logged)::text AS text FROM lake.whatsapp_event_logs AS logged"
    text = "\n".join(row["text"] for row in rows(house.data_dir, lake))
    assert len(text) > 100_000
    assert [secret for secret in secrets if secret in text] == []
