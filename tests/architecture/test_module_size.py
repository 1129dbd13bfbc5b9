"""Modules stay under 300 lines and functions under 60, so that each fits a reader's head."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("asgi", "bench", "collector", "contracts", "ingest", "migrations", "outbox", "simulator", "zaplake")
MODULE_LINES_MAX = 300
FUNCTION_LINES_MAX = 60
FORBIDDEN_NAMES = {"utils", "helpers", "manager", "base"}

MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def test_there_are_modules_to_measure() -> None:
    assert len(MODULES) > len(ROOMS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_and_functions_are_short(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) < MODULE_LINES_MAX
    assert path.stem not in FORBIDDEN_NAMES
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            assert lines < FUNCTION_LINES_MAX, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_says_its_promise(path: Path) -> None:
    source = path.read_text()
    if source.strip():
        assert ast.get_docstring(ast.parse(source)), "a module starts with the promise it makes"
