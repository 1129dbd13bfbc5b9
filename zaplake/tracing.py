"""Sends spans to an OTLP endpoint when the standard ``OTEL_*`` environment names one; else nothing happens.

The only module that knows OpenTelemetry's SDK, which the extra ``otel`` brings.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Final

from asgi.tracing import tracing
from zaplake.trouble import UsageTrouble

LAST_SPANS_S_MAX: Final = 5.0
"""What a stop waits for spans that were not sent yet."""
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


@contextlib.contextmanager
def traced(role: str, environment: Mapping[str, str]) -> Iterator[None]:
    """Traces what runs in the block as service ``zaplake-<role>``, when the environment asks for it.

    Raises UsageTrouble for what it asks for and this process cannot do.
    """
    if not is_wanted(environment):
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise UsageTrouble(
            "the OTEL_* environment asks for traces, but OpenTelemetry's SDK is not installed",
            "pip install '.[otel]' in zaplake's folder, or set OTEL_SDK_DISABLED=true",
        ) from error
    is_named = "OTEL_SERVICE_NAME" in environment or "service.name=" in environment.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if is_named else {SERVICE_NAME: f"zaplake-{role}"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        with tracing(provider):
            yield
    finally:
        last = threading.Thread(target=provider.shutdown, name="last-spans", daemon=True)
        last.start()
        last.join(LAST_SPANS_S_MAX)


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for traces. Raises UsageTrouble for an exporter that there is not."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporter == "none" or not (exporter or any(environment.get(name) for name in ENDPOINTS)):
        return False
    if exporter not in ("", "otlp"):
        raise UsageTrouble(f"OTEL_TRACES_EXPORTER is {exporter!r}", "only otlp and none are known")
    protocol = next((environment[name] for name in PROTOCOLS if environment.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        raise UsageTrouble(
            f"the OTLP protocol is {protocol!r}", "only http/protobuf is known; its port is usually 4318"
        )
    return True
