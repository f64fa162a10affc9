"""Traces of a job, at a real receiver of OTLP over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import text

from jobmanager.loops.trace_emitter import TraceEmitter
from jobmanager.signals.otlp_exporter import OtlpExporter, exporter_from, is_wanted
from tests.support.answering_server import serving
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster

pytestmark = pytest.mark.anyio


class Collector:
    """What the receiver got: requests as they came."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


@contextmanager
def a_collector() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if collector.status == 200 and self.path == "/v1/traces":
                collector.headers.append(dict(self.headers.items()))
                collector.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(collector.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with serving(Handler) as collector.url:
        yield collector


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with a_collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=of-the-collector")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        yield made


@pytest.fixture(autouse=True)
async def _nothing_of_other_tests(cluster: Cluster) -> None:
    async with cluster.database.engine.begin() as connection:
        await connection.execute(text("DELETE FROM signal_cursors"))
        await connection.execute(text("DELETE FROM jobs"))


def an_emitter(cluster: Cluster) -> TraceEmitter:
    return TraceEmitter(cluster.database.unit_of_work, OtlpExporter(), cluster.clock)


async def checkpointed(cluster: Cluster, name: str = "traced") -> str:
    job, runner = await cluster.running(a_document(name=name))
    asked = await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    await cluster.dispatch.run_once()
    cluster.clock.pass_time(2)
    assert await runner.ack(asked.json()["number"], *EVERYONE) == "completed"
    return job


def attributes_of(span: Any) -> dict[str, Any]:
    return {
        one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes
    }


async def test_a_checkpoint_arrives_as_one_trace(cluster: Cluster, collector: Collector) -> None:
    emitter = an_emitter(cluster)
    await emitter.run_once()
    cluster.clock.pass_time(1)
    job = await checkpointed(cluster)
    await emitter.run_once()

    (root,) = collector.named("checkpoint")
    children = [span for span in collector.spans if span.parent_span_id == root.span_id]
    assert sorted(one.name for one in children) == ["bids/0", "out/0", "revenue/0", "revenue/1"]
    assert {one.trace_id for one in children} == {root.trace_id}
    assert attributes_of(root)["headgate.job.id"] == job
    assert attributes_of(root)["headgate.checkpoint.status"] == "completed"
    assert root.end_time_unix_nano - root.start_time_unix_nano == 2_000_000_000
    resource = attributes_of(collector.requests[0].resource_spans[0].resource)
    assert resource["service.name"] == "headgate"
    assert resource["deployment.environment"] == "test"
    assert collector.headers[0]["x-key"] == "of-the-collector"
    await emitter.run_once()
    assert len(collector.named("checkpoint")) == 1


async def test_the_next_leader_makes_the_same_trace(cluster: Cluster, collector: Collector) -> None:
    first = an_emitter(cluster)
    await first.run_once()
    cluster.clock.pass_time(1)
    await checkpointed(cluster)
    await first.run_once()
    await an_emitter(cluster).run_once()  # it looks back, since it does not know what was sent

    sent = collector.named("checkpoint")
    assert len(sent) == 2
    assert len({one.trace_id for one in sent}) == len({one.span_id for one in sent}) == 1


async def test_attempts_and_operations_are_traces_too(
    cluster: Cluster, collector: Collector
) -> None:
    emitter = an_emitter(cluster)
    await emitter.run_once()
    cluster.clock.pass_time(1)
    job, runner = await cluster.running(a_document(name="stopped"))
    asked = await cluster.http.post(f"/v1/jobs/{job}/stop", json={"drain": False})
    assert asked.status_code == 202, asked.text
    await cluster.dispatch.run_once()
    stop = (await runner.directives())[-1]["body"]
    cluster.clock.pass_time(3)
    await runner.ack(stop["checkpoint"], *EVERYONE)
    await runner.say("stopped", savepoint=stop["savepoint"]["id"])
    await emitter.run_once()

    (operation,) = [one for one in collector.named("stop") if not one.parent_span_id]
    phases = [one.name for one in collector.spans if one.parent_span_id == operation.span_id]
    assert phases == ["savepoint", "stop"]
    (attempt,) = collector.named("attempt")
    parts = [one.name for one in collector.spans if one.parent_span_id == attempt.span_id]
    assert parts == ["start", "run"]
    assert len({one.trace_id for one in collector.spans}) == 3  # the checkpoint is the third


async def test_a_collector_that_is_away_gets_traces_later_and_holds_up_nobody(
    cluster: Cluster, collector: Collector
) -> None:
    emitter = an_emitter(cluster)
    await emitter.run_once()
    cluster.clock.pass_time(1)
    collector.status = 400
    await checkpointed(cluster)
    await emitter.run_once()
    assert collector.spans == []
    collector.status = 200
    await emitter.run_once()
    assert collector.spans == []  # it waits before it tries again
    cluster.clock.pass_time(60)
    await emitter.run_once()
    assert len(collector.named("checkpoint")) == 1

    collector.status = 400
    await checkpointed(cluster, "dropped")
    await emitter.run_once()
    cluster.clock.pass_time(3600)
    collector.status = 200
    await emitter.run_once()
    assert len(collector.named("checkpoint")) == 1  # too old


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
async def test_traces_are_switched_on_by_the_standard_variables(
    environment: dict[str, str], wanted: bool
) -> None:
    assert is_wanted(environment) is wanted
    assert (exporter_from(environment) is not None) is wanted
