"""Sends spans to an OpenTelemetry collector by OTLP over HTTP.

Switched on by the standard variables: `OTEL_EXPORTER_OTLP_ENDPOINT`, or
`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`. The exporter of the OpenTelemetry project reads these and all
others that are about it: headers, timeout, certificate, compression. It is in the optional extra
`headgate[otel]`, so it is imported only when it is needed.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

import structlog

from jobmanager.core.signals.traces import FinishedSpan
from jobmanager.files.own_threads import in_own_thread

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_log = structlog.get_logger(__name__)
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"
_SCOPE = "headgate.jobmanager"


class OtlpExporter:
    """One for a server. An export takes as long as the collector does: in a thread of its own."""

    def __init__(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        own = {"service.name": "headgate", "service.version": version("headgate")}
        # what OTEL_RESOURCE_ATTRIBUTES says counts more, but for the name "unknown_service"
        told = dict(Resource.create().attributes)
        if str(told.get("service.name", "")).startswith("unknown_service"):
            del told["service.name"]
        self._resource = Resource({**own, **told})
        self._scope = InstrumentationScope(_SCOPE, version("headgate"))
        self._exporter = OTLPSpanExporter()

    async def export(self, spans: Sequence[FinishedSpan]) -> bool:
        try:
            return await in_own_thread(lambda: self._export(spans))
        except Exception as error:  # whatever the library raises, the loop goes on
            _log.warning("spans not exported", error=f"{type(error).__name__}: {error}")
            return False

    def _export(self, spans: Sequence[FinishedSpan]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        made = [self._readable(span) for span in spans]
        return self._exporter.export(made) is SpanExportResult.SUCCESS

    def _readable(self, span: FinishedSpan) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
        from opentelemetry.trace.status import Status, StatusCode

        sampled = TraceFlags(TraceFlags.SAMPLED)

        def context(span_id: int) -> SpanContext:
            return SpanContext(span.trace_id, span_id, is_remote=False, trace_flags=sampled)

        is_error = span.error is not None
        return ReadableSpan(
            name=span.name,
            context=context(span.span_id),
            parent=None if span.parent_id is None else context(span.parent_id),
            resource=self._resource,
            attributes=dict(span.attributes),
            kind=SpanKind.INTERNAL,
            instrumentation_scope=self._scope,
            status=Status(StatusCode.ERROR, span.error) if is_error else Status(StatusCode.OK),
            start_time=_nanoseconds(span.started_at),
            end_time=_nanoseconds(span.ended_at),
        )


def exporter_from(environment: Mapping[str, str]) -> OtlpExporter | None:
    """Return the exporter that the variables ask for; None: traces are switched off, or the
    package is missing, which the log says.
    """
    if not is_wanted(environment):
        return None
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _HTTP)
    if protocol != _HTTP:
        _log.warning(
            "traces are sent by http/protobuf only",
            asked=protocol,
            what_to_do="use the collector's HTTP port, usually 4318",
        )
    try:
        return OtlpExporter()
    except ImportError:
        _log.warning(
            "no traces: the package is not installed", what_to_do="pip install 'headgate[otel]'"
        )
        return None


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Return whether the standard variables ask for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "otlp") not in ("otlp", ""):
        return False
    return any(environment.get(name) for name in _ENDPOINTS)


def _nanoseconds(at: datetime) -> int:
    seconds = int(at.timestamp())
    return seconds * 1_000_000_000 + at.microsecond * 1000
