"""What the documents list is what the code has: members on the wire, columns and kinds of the lake."""

import re
from pathlib import Path

from contracts.envelope import WireEvent
from contracts.events import KINDS
from ingest.tables import whatsapp_event_logs

DOCS = Path(__file__).parents[2] / "docs"


def named(lines: str) -> set[str]:
    """The names in the first column of a table's lines."""
    cells = re.findall(r"^\| (`[^|]+`) \|", lines, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def between(page: str, start: str, end: str) -> str:
    text = (DOCS / page).read_text()
    return text[text.index(start) : text.index(end)]


def test_the_contract_lists_each_member_of_an_event() -> None:
    one = between("contract.md", "## One event", "## Answers")
    needed = set(re.findall(r'"(\w+)":', next(line for line in one.splitlines() if line.startswith("{"))))
    assert needed == {"type", "chat_jid", "payload"}
    assert needed | named(one) | {"event_id"} == set(WireEvent.__struct_fields__)


def test_the_page_of_the_lake_lists_each_column() -> None:
    log = between("lake.md", "## lake.whatsapp_event_logs", "## Beside it")
    assert named(log) == {column.name for column in whatsapp_event_logs.columns}


def test_the_page_of_the_lake_lists_each_kind() -> None:
    listed = re.findall(r"`([a-z_.|]+)`", between("lake.md", "## Kinds", "One more does not"))
    kinds: set[str] = set()
    for name in listed:
        first, *others = name.split("|")
        kinds |= {first, *(f"{first.rpartition('.')[0]}.{other}" for other in others)}
    assert kinds - {"capture.presence"} == KINDS


def test_decisions_are_numbered_without_gap_and_all_listed() -> None:
    pages = sorted(path.name for path in (DOCS / "adr").glob("0*.md"))
    assert [page[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    assert (
        re.findall(r"^\| \[\d{4}\]\(([^)]+)\)", (DOCS / "adr/README.md").read_text(), re.MULTILINE) == pages
    )
