"""What the tests of this room share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.zaplake.operating import Operator, operating


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not pytest's own: each start of pytest closes that to the user that Postgres runs as."""
    path = Path(tempfile.mkdtemp(prefix="zl"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def operator(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Operator]:
    """Runs commands without a process of their own."""
    with operating(capsys, monkeypatch, tmp_path) as opened:
        yield opened
