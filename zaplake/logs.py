"""structlog for a whole process: to stderr, event name first, JSON unless a person watches."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from zaplake.settings import LogSettings


def configure(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Call once, before anything is logged. Standard-library loggers (uvicorn, alembic) take the same way."""
    out = stream or sys.stderr
    as_json = settings.format == "json" or (settings.format == "auto" and not out.isatty())
    level = getattr(logging, settings.level.upper())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.types.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=out.isatty())
    )
    tail: list[structlog.types.Processor] = [structlog.processors.format_exc_info] if as_json else []
    structlog.configure(
        processors=[*shared, *tail, _event_first, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
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
