"""Traces over both sides: one from the request that ships to the commit, nothing personal, off by default."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import get_current_span

from asgi.tracing import parent_in, span, tracer_of, tracing
from contracts.envelope import EVENT_PATH
from tests.collector.running import collector_config, eventually, message, running
from tests.collector.scripted import ScriptedBackend
from tests.ingest.backend import SECRET, an_id, backend, event, signed
from zaplake.tracing import is_wanted, traced
from zaplake.trouble import UsageTrouble

ROOT = Path(__file__).parents[2]
GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with tracing(provider):
        yield exporter
    provider.shutdown()


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [done for done in exporter.get_finished_spans() if done.name == name]


def shipped(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    """Requests that carried events; the heartbeats are the others."""
    requests = named(exporter, "ship.request")
    return [done for done in requests if (done.attributes or {})["url.path"] == EVENT_PATH]


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    assert child.context is not None
    assert parent.context is not None
    ours = child.parent is not None and child.parent.span_id == parent.context.span_id
    return ours and child.context.trace_id == parent.context.trace_id


async def test_one_trace_from_the_request_that_ships_to_the_commit(
    spans: InMemorySpanExporter, dsn: str, tmp_path: Path
) -> None:
    async with backend(dsn) as there:
        config = collector_config(tmp_path, f"http://127.0.0.1:{there.port}", secrets=(SECRET,))
        async with running(config) as collector:
            assert (await collector.post("/gateways/evolution/loja-sp", message(1))).status_code == 200
            await eventually(lambda: bool(shipped(spans)), "the event is shipped")
    (received,), (put,) = named(spans, "door.receive"), named(spans, "outbox.put")
    assert is_child(put, received)
    (asked,), (taken,), (committed,) = (
        shipped(spans),
        named(spans, "ingest.receive"),
        named(spans, "ingest.commit"),
    )
    assert is_child(taken, asked)
    assert is_child(committed, taken)
    assert dict(committed.attributes or {}) == {"rows": 1}
    assert (asked.attributes or {})["http.response.status_code"] == 201
    told = repr(
        [(done.name, dict(done.attributes or {}), done.events) for done in spans.get_finished_spans()]
    )
    for personal in ("5511900000001", "s.whatsapp.net", "loja-sp", "3EB0", "pedido"):
        assert personal not in told


async def test_without_a_provider_no_header_travels(tmp_path: Path) -> None:
    async with ScriptedBackend() as there, running(collector_config(tmp_path, there.url)) as collector:
        await collector.post("/gateways/evolution/loja-sp", message(1))
        await eventually(lambda: bool(there.stored), "the event is shipped")
        assert {name for request in there.requests for name in request.headers} & {"traceparent"} == set()


HOSTILE = (b"", b"00-zz", GOOD.encode() + b"-x", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01")


@pytest.mark.parametrize("hostile", [*HOSTILE, b"\xff" * 55, b"9" * 8_000])
async def test_a_hostile_header_is_harmless(spans: InMemorySpanExporter, dsn: str, hostile: bytes) -> None:
    async with backend(dsn) as there:
        event_id, body = an_id(), event()
        headers = [(name.encode(), value.encode()) for name, value in signed(event_id, body).items()]
        answer = await there.client.post(
            EVENT_PATH, content=body, headers=[*headers, (b"traceparent", hostile)]
        )
        assert answer.status_code == 201
    (taken,) = named(spans, "ingest.receive")
    assert taken.parent is None


async def test_who_has_no_right_signature_chooses_no_trace(spans: InMemorySpanExporter, dsn: str) -> None:
    async with backend(dsn) as there:
        headers = {"X-Event-Id": an_id(), "X-Signature": "0" * 64, "traceparent": GOOD}
        answer = await there.client.post(EVENT_PATH, content=event(), headers=headers)
        assert answer.status_code == 401
        assert spans.get_finished_spans() == ()
        assert (await there.post(an_id(), event(), traceparent=GOOD)).status_code == 201
    (taken,) = named(spans, "ingest.receive")
    assert taken.parent is not None
    assert taken.parent.span_id == int(GOOD[36:52], 16)


async def test_an_error_tells_its_type_and_not_its_words(spans: InMemorySpanExporter, dsn: str) -> None:
    async with backend(dsn) as there:
        assert (await there.post(an_id(), b'{"payload": "5511900000001"}')).status_code == 422
    (taken,) = named(spans, "ingest.receive")
    assert dict(taken.attributes or {})["error.type"] == "ProblemError"
    assert taken.events == ()
    assert not taken.status.is_ok
    assert taken.status.description is None


HEADERS = st.lists(st.tuples(st.sampled_from([b"traceparent", b"x"]), st.binary(max_size=300)), max_size=3)


@given(HEADERS)
def test_no_header_makes_the_reading_fail(headers: list[tuple[bytes, bytes]]) -> None:
    parent_in(headers)


def test_a_header_that_came_twice_is_none() -> None:
    one = (b"traceparent", GOOD.encode())
    assert get_current_span(parent_in([one])).get_span_context().is_remote
    assert not get_current_span(parent_in([one, one])).get_span_context().is_valid


def test_off_it_is_one_object_for_all() -> None:
    assert tracer_of("any") is None
    assert span(None, "a") is span(None, "b")
    with span(None, "a") as nothing:
        assert nothing is None


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, False),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
    ],
)
def test_the_standard_environment_switches_it(environment: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environment) is wanted


@pytest.mark.parametrize(
    "environment", [{"OTEL_TRACES_EXPORTER": "jaeger"}, {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}]
)
def test_what_is_not_known_is_refused_at_the_start(environment: dict[str, str]) -> None:
    with pytest.raises(UsageTrouble):
        is_wanted(environment)


def test_without_the_extra_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    with pytest.raises(UsageTrouble) as trouble, traced("serve", ENDPOINT):
        pass
    assert ".[otel]" in str(trouble.value.__dict__) + str(trouble.value)


def test_spans_reach_an_otlp_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[tuple[str, bytes]] = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing to stderr."""

    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        with traced("collect", os.environ), span(tracer_of("test"), "door.receive"):
            pass
        server.shutdown()
    assert [path for path, _ in bodies] == ["/v1/traces"]
    assert b"zaplake-collect" in bodies[0][1]
    assert b"door.receive" in bodies[0][1]
    assert tracer_of("test") is None


def test_one_module_knows_the_sdk() -> None:
    rooms = ("asgi", "collector", "contracts", "ingest", "outbox", "simulator", "zaplake", "migrations")
    knowing = [
        str(path.relative_to(ROOT))
        for room in rooms
        for path in (ROOT / room).rglob("*.py")
        if "opentelemetry.sdk" in path.read_text() or "opentelemetry.exporter" in path.read_text()
    ]
    assert knowing == ["zaplake/tracing.py"]
