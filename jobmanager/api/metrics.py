"""`/metrics` for Prometheus.

Figures of the cluster are read from Postgres when Prometheus asks, at most once a second: every
server gives the same. Latencies are measured by each server itself. Only gauges of live jobs are
labelled with a job, and they disappear when the job ends.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobmanager.api.reader_figures import FiguresOfReaders
from jobmanager.core.errors import StoreUnavailable
from jobmanager.core.life.health import Health
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.lease import Term
from jobmanager.core.open_connections import OpenConnections
from jobmanager.core.progress import SourceProgress, largest_lag_ms
from jobmanager.services.events import EventHub
from jobmanager.services.ports.figures import Figures, JobFigures
from jobmanager.services.ports.unit_of_work import UnitsOfWork

router = APIRouter(tags=["health"])
_KEEP_SECONDS = 1.0
_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)
_STATES = (*JobStatus, Health.STALLED, Health.DEGRADED)
_WAITS = "/runners/{runner_id}/directives"
"""Routes of long polls, which are not measured: their duration says nothing."""


class Meters:
    """The figures that this server measures, and those it last read from Postgres."""

    def __init__(self, units: UnitsOfWork, events: EventHub) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="headgate", registry=self.registry)
        self.checkpoints = Histogram(
            "headgate_checkpoint_duration_seconds",
            "From the trigger of a checkpoint to its last ack, as taken by this server.",
            ["kind"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.acks = Histogram(
            "headgate_ack_latency_seconds",
            "From the trigger of a checkpoint to each message with acks.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.requests = Histogram(
            "headgate_http_request_duration_seconds",
            "Time until a request's answer began, by route. Long polls of runners are left out.",
            ["method", "route", "status"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self.registry,
        )
        self._units = units
        self._events = events
        self._connections: OpenConnections[Any] | None = None
        self._readers = FiguresOfReaders()
        self._figures: Figures | None = None
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    def watch(self, connections: OpenConnections[Any], readers: FiguresOfReaders) -> None:
        """Show the connections of this server, and its reader processes."""
        self._connections, self._readers = connections, readers

    def acked(self, kind: str, after: timedelta, *, is_last: bool) -> None:
        self.acks.observe(after.total_seconds())
        if is_last:
            self.checkpoints.labels(kind).observe(after.total_seconds())

    async def collect(self, now: datetime, term: Term | None) -> list[Metric]:
        """Return all figures; while Postgres does not answer, only those of this server itself."""
        figures = await self._read()
        up = GaugeMetricFamily(
            "headgate_postgres_up", "Whether Postgres answers.", figures is not None
        )
        streams = GaugeMetricFamily(
            "headgate_event_streams", "Event streams open on this server.", self._events.streams
        )
        build = GaugeMetricFamily("headgate_build", "Always 1.", labels=["version"])
        build.add_metric([version("headgate")], 1)
        own = self._readers.with_requests(self.registry.collect())
        told = [up, streams, build, *_of_leadership(term), *own, *self._readers.metrics()]
        if self._connections is not None:
            told += _of_connections(self._connections, self._readers)
        return [*told, *_of_cluster(figures, now), *_of_jobs(figures, now)] if figures else told

    async def _read(self) -> Figures | None:
        async with self._reading:
            if time.monotonic() - self._read_at >= _KEEP_SECONDS:
                try:
                    async with self._units() as uow:
                        self._figures = await uow.statistics.read()
                except StoreUnavailable:
                    self._figures = None
                self._read_at = time.monotonic()
            return self._figures


@router.get("/metrics", summary="Figures for Prometheus", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    context = request.app.state.context
    families = await context.meters.collect(context.clock(), context.leadership.term)
    once = CollectorRegistry()
    once.register(_Collected(families))
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(once), media_type=content_type)


class RequestTimer:
    """Measures how long each answer takes to begin."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                _observe(scope, message["status"], began)
            await send(message)

        try:
            await self._app(scope, receive, timed)
        except Exception:
            _observe(scope, 500, began)
            raise


def _observe(scope: Scope, status: int, began: float) -> None:
    """Record the time by the route's template, not by the path: there are as many paths as ids."""
    context = getattr(scope["app"].state, "context", None)
    route = getattr(scope.get("route"), "path", "none").removeprefix("/v1")
    if context is not None and route != _WAITS:
        labelled = context.meters.requests.labels(_method(scope), route, str(status))
        labelled.observe(time.perf_counter() - began)


def _method(scope: Scope) -> str:
    known = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
    return scope["method"] if scope["method"] in known else "other"


class _Collected(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _of_leadership(term: Term | None) -> Iterator[Metric]:
    """Return this server's own view of leadership, which needs no Postgres."""
    yield GaugeMetricFamily("headgate_leads", "Whether this server leads.", term is not None)
    if term is not None:
        yield GaugeMetricFamily("headgate_lease_term", "The term in which this server leads.", term)


def _of_connections(
    connections: OpenConnections[Any], readers: FiguresOfReaders
) -> Iterator[Metric]:
    there = GaugeMetricFamily(
        "headgate_http_connections", "Connections open on this server.", labels=["phase"]
    )
    in_readers, by_readers = readers.phases(), Counter(readers.closed())
    for phase, count in connections.counts.items():
        there.add_metric([phase], count + in_readers.get(phase, 0))
    yield there
    closed = CounterMetricFamily(
        "headgate_http_connections_closed",
        "Connections that this server refused or broke off.",
        labels=["reason"],
    )
    for reason, count in sorted((by_readers + Counter(connections.closed_because)).items()):
        closed.add_metric([reason], count)
    yield closed


def _of_cluster(figures: Figures, now: datetime) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("headgate_jobs", "Jobs by state, as shown.", labels=["state"])
    for state in _STATES:
        jobs.add_metric([state], figures.states.get(state, 0))
    yield jobs
    yield CounterMetricFamily(
        "headgate_restarts", "Restarts of all jobs after failures.", figures.restarts
    )
    outbox = GaugeMetricFamily(
        "headgate_outbox_depth", "Effects not known to be done.", labels=["target"]
    )
    for target in ("jobmanager", "runner"):
        outbox.add_metric([target], figures.outbox.get(target, 0))
    yield outbox
    yield GaugeMetricFamily(
        "headgate_outbox_oldest_seconds",
        "Age of the oldest effect in the outbox.",
        _age(figures.outbox_oldest, now) or 0,
    )
    under_way = GaugeMetricFamily(
        "headgate_operations_in_progress", "Savepoints, stops and changes.", labels=["kind"]
    )
    for kind, count in figures.operations.items():
        under_way.add_metric([kind], count)
    yield under_way
    yield GaugeMetricFamily("headgate_runners", "Runners whose process is alive.", figures.runners)


def _of_jobs(figures: Figures, now: datetime) -> Iterator[Metric]:
    """Gauges of each live job."""
    gauges = {
        name: GaugeMetricFamily(f"headgate_job_{name}", text, labels=["job", "name"])
        for name, text in _OF_A_JOB.items()
    }
    for job in figures.jobs:
        for name, value in _values(job, now).items():
            if value is not None:
                gauges[name].add_metric([job.id.hex, job.name], value)
    yield from gauges.values()
    yield from _of_sources(figures)


def _of_sources(figures: Figures) -> Iterator[Metric]:
    """Gauges of each partition of the sources of live jobs, and of records they cannot decode."""
    labels = ["job", "name", "vertex"]
    rows = GaugeMetricFamily(
        "headgate_source_lag_rows",
        "Records of a partition that a source has not read.",
        labels=[*labels, "partition"],
    )
    seconds = GaugeMetricFamily(
        "headgate_source_lag_seconds",
        "Age of the first record of a partition that a source has not read.",
        labels=[*labels, "partition"],
    )
    unreadable = GaugeMetricFamily(
        "headgate_source_unreadable_rows",
        "Records that a source could not decode since the job's attempt began.",
        labels=labels,
    )
    for job, source in _sources(figures):
        at = [job.id.hex, job.name, source.vertex]
        unreadable.add_metric(at, source.unreadable_rows)
        for lag in source.lags:
            rows.add_metric([*at, lag.partition], lag.rows)
            if lag.seconds is not None:
                seconds.add_metric([*at, lag.partition], lag.seconds)
    yield from (rows, seconds, unreadable)


def _sources(figures: Figures) -> Iterator[tuple[JobFigures, SourceProgress]]:
    """Each source once: a source in two regions is read by both, and is as late as the later."""
    for job in figures.jobs:
        found: dict[str, SourceProgress] = {}
        for source in (one for region in job.progress for one in region.sources):
            known = found.get(source.vertex)
            if known is None or (source.backlog_rows or 0) > (known.backlog_rows or 0):
                found[source.vertex] = source
        yield from ((job, one) for one in found.values())


_OF_A_JOB = {
    "healthy": "1 while the job runs and is neither stalled nor degraded.",
    "restarts": "Restarts of the job after failures.",
    "heartbeat_age_seconds": "Time since the last heartbeat of the job's runner.",
    "checkpoint_age_seconds": "Time since the newest checkpoint or savepoint completed.",
    "checkpoint_last_duration_seconds": "Duration of the newest checkpoint or savepoint.",
    "checkpoint_last_bytes": "Size of all files of the newest checkpoint or savepoint.",
    "checkpoint_failures": "Periodic checkpoints that failed in a row.",
    "lag_seconds": "Lag of the slowest watermark behind its region's last batch.",
    "unmoved_seconds": "Time for which a region had input and committed nothing.",
    "batch_duration_seconds": "Duration of the slowest region's last batch.",
    "input_rows_per_second": "Rows read a second by all regions, in their last batches.",
    "processed_rows_per_second": "Rows processed a second by all regions, in their last batches.",
    "state_bytes": "Memory of Spark's state stores.",
}


def _values(job: JobFigures, now: datetime) -> dict[str, float | None]:
    regions, lag = job.progress, largest_lag_ms(job.progress)
    return {
        "healthy": float(job.is_healthy),
        "restarts": job.restarts,
        "heartbeat_age_seconds": _age(job.heartbeat_at, now),
        "checkpoint_age_seconds": _age(job.checkpointed_at, now),
        "checkpoint_last_duration_seconds": (
            job.checkpoint_took.total_seconds() if job.checkpoint_took is not None else None
        ),
        "checkpoint_last_bytes": job.checkpoint_bytes,
        "checkpoint_failures": job.failed_checkpoints,
        "lag_seconds": None if lag is None else lag / 1000,
        "unmoved_seconds": max((one.unmoved_ms or 0 for one in regions), default=0) / 1000,
        "batch_duration_seconds": (
            max((one.batch_duration_ms for one in regions), default=0) / 1000
        ),
        "input_rows_per_second": sum(one.input_rows_per_second for one in regions),
        "processed_rows_per_second": sum(one.processed_rows_per_second for one in regions),
        "state_bytes": sum(one.state_bytes for one in regions),
    }


def _age(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else max(0.0, (now - at).total_seconds())
