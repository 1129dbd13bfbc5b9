"""Spans by the OpenTelemetry API, for the rooms that serve and ask. Off, they cost a call that does nothing.

A span names what was done, sizes and outcomes; never a text, a phone number, a JID or a secret.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TRACEPARENT: Final = "traceparent"
TRACEPARENT_CHARS_MAX: Final = 256
"""The format has 55; a later version may have more."""

_W3C: Final = TraceContextTextMapPropagator()
_OFF: Final[AbstractContextManager[None]] = contextlib.nullcontext()
_providers: list[TracerProvider] = []


@contextlib.contextmanager
def tracing(provider: TracerProvider) -> Iterator[None]:
    """What is made while the block runs (doors, clients) tells its spans to ``provider``."""
    _providers.append(provider)
    try:
        yield
    finally:
        _providers.remove(provider)


def tracer_of(name: str) -> Tracer | None:
    """The tracer for spans of a room; None while nobody wants them."""
    return _providers[-1].get_tracer(name) if _providers else None


def span(
    tracer: Tracer | None,
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    *,
    parent: Context | None = None,
    attributes: Mapping[str, str | int] | None = None,
) -> AbstractContextManager[Span | None]:
    """The span that is current in the block; None without a tracer. Of an error it tells the type alone."""
    return _OFF if tracer is None else _running(tracer, name, kind, parent, attributes)


@contextlib.contextmanager
def _running(
    tracer: Tracer,
    name: str,
    kind: SpanKind,
    parent: Context | None,
    attributes: Mapping[str, str | int] | None,
) -> Iterator[Span]:
    with tracer.start_as_current_span(
        name,
        parent,
        kind,
        attributes=dict(attributes or {}),
        record_exception=False,  # its message may quote what was received
        set_status_on_exception=False,
    ) as running:
        try:
            yield running
        except BaseException as error:
            running.set_status(StatusCode.ERROR)
            running.set_attribute("error.type", type(error).__name__)
            raise


def put_parent(headers: MutableMapping[str, str]) -> None:
    """Adds the current span to the headers of a request, when there is one."""
    _W3C.inject(headers)


def parent_in(headers: Iterable[tuple[bytes, bytes]]) -> Context:
    """The span that a request belongs to. A header that is odd, or there twice, is none.

    Only for a sender whose signature was right: others shall not choose what is traced.
    """
    found = [value for name, value in headers if name == TRACEPARENT.encode()]
    if len(found) != 1 or len(found[0]) > TRACEPARENT_CHARS_MAX:
        return Context()
    return _W3C.extract({TRACEPARENT: found[0].decode("latin-1")}, Context())
