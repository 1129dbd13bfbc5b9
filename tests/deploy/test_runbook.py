"""The runbook names every alert that the code can raise, and the README leads to it."""

import re
from pathlib import Path

from ingest import coverage, silence, watch

ROOT = Path(__file__).parents[2]
RAISED = re.compile(
    r'raise_\(\s*"([a-z_.]+)"|_Refused\(\s*"(door[a-z_.]+)"|Alert\(name="([a-z_.]+)"|(?:halted|dead)="([a-z_.]+)"'
)


def code() -> str:
    return "".join(
        path.read_text() for room in ("collector", "ingest") for path in (ROOT / room).rglob("*.py")
    )


def test_the_runbook_has_a_line_for_each_alert_and_for_no_other() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    listed = set(re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \|", page, re.MULTILINE))
    raised = {name for names in RAISED.findall(code()) for name in names if name}
    assert {"shipper.halted", "door.secret", "scope.changed"} <= raised
    assert raised <= listed
    assert {
        watch.SILENT,
        watch.BACKLOG,
        watch.DISCONNECTED,
        silence.SILENT,
        silence.DEAF,
        coverage.DIVERGE,
    } <= listed
    assert {name for name in listed if f'"{name}"' not in code()} == set(), "nobody raises these"


def test_the_readme_leads_to_the_runbook() -> None:
    assert "(docs/operations.md)" in (ROOT / "README.md").read_text()
