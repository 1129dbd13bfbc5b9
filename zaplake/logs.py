"""structlog for a whole process: to stderr, event name first, JSON unless a person watches.

A log that cannot be written costs its lines, never the work: a full disk or a reader that left ends nothing.
The same holds for what a process that runs on says on stdout.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, MutableMapping
from typing import Any, TextIO, cast

import structlog

from zaplake.settings import LogSettings


class UnfailingStream:
    """What a logger and ``print`` need of a stream, without its errors."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._failed = False
        self._lost = 0

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._failed = True
            return len(text)

    def flush(self) -> None:
        """At the end of a line."""
        try:
            self._stream.flush()
        except OSError:
            self._failed = True
        self._lost = self._lost + 1 if self._failed else 0
        self._failed = False

    def isatty(self) -> bool:
        return self._stream.isatty()

    def tell_lost(
        self, _logger: Any, _method: str, fields: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """The first line after a gap says how many are missing."""
        return {**fields, "log_lines_lost": self._lost} if self._lost else fields


@contextlib.contextmanager
def unfailing_stdout() -> Iterator[None]:
    """For a command that runs until it is stopped: what it cannot say on stdout is left out."""
    real = sys.stdout
    try:
        with contextlib.redirect_stdout(cast("TextIO", UnfailingStream(real))):
            yield
    finally:
        try:
            real.flush()
        except OSError:  # Python would try once more when it ends, and make that exit code 120
            os.dup2(os.open(os.devnull, os.O_WRONLY), real.fileno())


def configure(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Call once, before anything is logged. Standard-library loggers (uvicorn, alembic) take the same way."""
    out = UnfailingStream(stream or sys.stderr)
    as_json = settings.format == "json" or (settings.format == "auto" and not out.isatty())
    level = getattr(logging, settings.level.upper())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        out.tell_lost,
    ]
    last: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=out.isatty(),
            exception_formatter=structlog.dev.plain_traceback,  # the usual one shows what variables held
        )
    )
    tail: list[structlog.types.Processor] = [structlog.processors.format_exc_info] if as_json else []
    structlog.configure(
        processors=[*shared, *tail, _event_first, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", out)),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(cast("TextIO", out))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta, *tail, _event_first, last,
            ],
        )
    )  # fmt: skip
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries speak of requests and addresses at info; what they warn of is enough.
    root.setLevel(max(level, logging.WARNING))


def _event_first(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    first = {"event": fields.pop("event", ""), "level": fields.pop("level", "")}
    return {**first, **fields}
