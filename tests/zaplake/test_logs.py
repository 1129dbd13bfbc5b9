"""A log that cannot be written costs its lines and says so afterwards; whoever logs goes on."""

from __future__ import annotations

import errno
import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from zaplake import logs
from zaplake.settings import LogSettings


class SmallDisk(io.StringIO):
    """A file whose disk is full at times."""

    is_full = False

    def flush(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    disk = SmallDisk()
    logs.configure(LogSettings(level="info", format="json"), disk)
    yield disk
    logs.configure(LogSettings(), sys.stderr)


def test_a_full_disk_under_the_log_stops_nobody_who_logs(disk: SmallDisk) -> None:
    log = structlog.get_logger("any")
    disk.is_full = True
    for _ in range(3):
        log.info("outbox.full")
    logging.getLogger("a.library").warning("of it too")
    disk.is_full = False
    log.info("outbox.empty")
    log.info("outbox.idle")
    gap, after = (json.loads(line) for line in disk.getvalue().splitlines()[-2:])
    assert (gap["event"], gap["log_lines_lost"]) == ("outbox.empty", 4)
    assert after["event"] == "outbox.idle"
    assert "log_lines_lost" not in after


def test_a_reader_of_the_log_that_left_stops_nobody(monkeypatch: pytest.MonkeyPatch, disk: SmallDisk) -> None:
    def refuse(_text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(disk, "write", refuse)
    structlog.get_logger("any").info("nobody.reads")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_fault_is_told_without_what_the_variables_held(
    disk: SmallDisk, form: Literal["text", "json"]
) -> None:
    logs.configure(LogSettings(format=form), disk)

    def fail(held: str) -> None:
        raise KeyError(len(held))

    for logger in (structlog.get_logger("any"), logging.getLogger("a.library")):
        try:
            fail("-".join(["what", "a", "person", "wrote"]))
        except KeyError:
            logger.exception("request.broken")
    assert disk.getvalue().count("KeyError: 19") == 2
    assert "what-a-person-wrote" not in disk.getvalue()
