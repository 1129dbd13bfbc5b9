"""What a test needs of the machine: without it the test says so, and fails where it must not be missing."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def refused_by_ci(said: str) -> None:
    """Ends the test as failed with ``CI=true``, and does nothing on somebody's machine."""
    if os.environ.get("CI") == "true":
        pytest.fail(said)


def missing(said: str) -> NoReturn:
    """Ends the test: as skipped on somebody's machine, as failed with ``CI=true``."""
    refused_by_ci(said)
    pytest.skip(reason=f"{said}: not tried on this machine (with CI=true it is a failure)")


def not_installed(program: str) -> NoReturn:
    """The same for a program."""
    missing(f"{program} is not installed")
