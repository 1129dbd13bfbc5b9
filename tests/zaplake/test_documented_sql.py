"""Each statement that the documents show runs on a new lake."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from zaplake.query import run

DOCS = Path(__file__).parents[2] / "docs"
STATEMENTS = [
    statement
    for page in ("lake.md", "operations.md")
    for block in re.findall(r"```sql\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    for statement in block.split(";")
    if statement.strip()
]


def test_there_are_some() -> None:
    assert len(STATEMENTS) >= 10


@pytest.mark.parametrize("statement", STATEMENTS, ids=range(len(STATEMENTS)))
def test_a_statement_of_the_documents_runs(statement: str, dsn: str) -> None:
    answer = asyncio.run(run(dsn, statement, rows_max=100))
    assert answer.columns
