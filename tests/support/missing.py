"""What a test needs of the machine: without it the test says so, and fails where it must not be missing."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def not_installed(program: str) -> NoReturn:
    """Ends the test: as skipped on somebody's machine, as failed with ``CI=true``."""
    said = f"{program} is not installed"
    if os.environ.get("CI") == "true":
        pytest.fail(said)
    pytest.skip(said)
