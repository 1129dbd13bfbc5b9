"""The runbook names every alert that the code can raise, and the README leads to it."""

import re
from pathlib import Path

from ingest import watch

ROOT = Path(__file__).parents[2]
RAISED = re.compile(
    r'raise_\(\s*"([a-z_.]+)"|_Refused\(\s*"([a-z_]+\.[a-z_]+)"'
    r'|REFUSED: Final = "([a-z_.]+)"|Alert\(name="([a-z_.]+)"'
)


def raised() -> set[str]:
    texts = [path.read_text() for room in ("collector", "ingest") for path in (ROOT / room).glob("*.py")]
    found = {name for text in texts for names in RAISED.findall(text) for name in names if name}
    return found | {watch.SILENT, watch.BACKLOG, watch.DISCONNECTED, watch.INSTANCE_SILENT}


def test_the_runbook_has_a_line_for_each_alert_and_for_no_other() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    listed = set(re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \|", page, re.MULTILINE))
    assert {"shipper.halted", "door.secret", "collector.silent", "scope.changed"} <= raised()
    assert listed == raised()


def test_the_readme_leads_to_the_runbook() -> None:
    assert "(docs/operations.md)" in (ROOT / "README.md").read_text()
