"""Sends spans to OpenTelemetry, which is an extra and is imported only when tracing is switched on.

OpenTelemetry's own variables name the collector.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from swath.domain.errors import Failed
from swath.observability.task_context import install_spans

if TYPE_CHECKING:
    from opentelemetry.context import Context

__all__ = ["set_up_tracing"]

_SPAN_BITS: Final = (1 << 64) - 1
_trace_id: Final[ContextVar[int | None]] = ContextVar("swath_trace", default=None)


def set_up_tracing(service: str, exporter: SpanExporter | None = None) -> None:
    """Switches traces on, under this name. A test gives an exporter of its own, which has every span at once."""
    provider = TracerProvider(resource=Resource.create({"service.name": service}), id_generator=_Ids())
    if exporter is None:
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    else:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    install_spans(_Traces(provider.get_tracer("swath")))


class _Traces:
    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def begun(self, name: str, request_id: str, told: Mapping[str, str | int]) -> Iterator[object]:
        token = _trace_id.set(uuid.UUID(request_id).int)
        try:
            with self.spanned(name, None, told) as started:
                yield started
        finally:
            _trace_id.reset(token)

    @contextmanager
    def spanned(self, name: str, request_id: str | None, told: Mapping[str, str | int]) -> Iterator[object]:
        with self._tracer.start_as_current_span(
            name,
            context=None if request_id is None else _remote_parent(request_id),
            attributes={f"swath.{key}": value for key, value in told.items()},
            record_exception=False,  # its message may hold what was asked for
            set_status_on_exception=False,
        ) as started:
            try:
                yield started
            except Failed as failed:
                started.set_attribute("swath.failure", failed.failure.kind.value)
                raise


class _Ids(RandomIdGenerator):
    """By chance, but for the first span of a request."""

    def generate_trace_id(self) -> int:
        return _trace_id.get() or super().generate_trace_id()

    def generate_span_id(self) -> int:
        number = _trace_id.get()
        if number is None:
            return super().generate_span_id()
        _trace_id.set(None)  # what is done for the request gets ids of its own
        return number & _SPAN_BITS or super().generate_span_id()


def _remote_parent(request_id: str) -> Context | None:
    """As if we had been told by the span of that request, wherever it was. None when it is no id of ours."""
    try:
        number = uuid.UUID(request_id).int
    except ValueError:
        return None
    parent = trace.SpanContext(number, number & _SPAN_BITS, is_remote=True, trace_flags=trace.TraceFlags(1))
    return trace.set_span_in_context(trace.NonRecordingSpan(parent))
