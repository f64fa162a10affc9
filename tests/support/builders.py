"""Builders for test data: a test names the values that matter to it, the rest have defaults."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from jobmanager.core.graph.job_graph import ExponentialDelay, RestartStrategy
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, RegionId, SubtaskRef, VertexId
from jobmanager.core.life.attempt import Attempt, AttemptStatus
from jobmanager.core.life.checkpoint import Checkpoint, CheckpointKind, Snapshot, Stored
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.life.job import Desired, Job, JobStatus
from jobmanager.core.plan.job_plan import SnapshotKind

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
ONE_SECOND = timedelta(seconds=1)
PATIENT = ExponentialDelay(ONE_SECOND, timedelta(minutes=1), timedelta(minutes=10), None)

_DOCUMENT: dict[str, Any] = {
    "name": "revenue",
    "parallelism": 2,
    "vertices": [
        {
            "id": "bids",
            "op": "source",
            "connector": "generator",
            "rows_per_second": 100,
            "columns": {"auction": "id % 5", "price": "id", "ts": "ts"},
            "watermark": {"column": "ts", "delay": "5s"},
        },
        {"id": "big", "op": "filter", "inputs": ["bids"], "where": "price > 100"},
        {
            "id": "revenue",
            "op": "window",
            "inputs": ["big"],
            "key": ["auction"],
            "window": {"tumbling": "10s"},
            "aggregate": {"revenue": "sum(price)"},
        },
        {
            "id": "out",
            "op": "sink",
            "inputs": ["revenue"],
            "connector": "files",
            "format": "parquet",
            "path": "out",
        },
    ],
}


def a_document(**changes: Any) -> dict[str, Any]:
    """A sound job graph: source, filter, window, files sink."""
    return {**deepcopy(_DOCUMENT), **changes}


def a_document_with(vertex_id: str, **changes: Any) -> dict[str, Any]:
    """The same, with some fields of one vertex changed; None takes a field away."""
    document = a_document()
    for vertex in document["vertices"]:
        if vertex["id"] == vertex_id:
            vertex.update(changes)
            for field in [name for name, value in vertex.items() if value is None]:
                del vertex[field]
    return document


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def a_subtask(vertex: str = "revenue", subtask: int = 0) -> SubtaskRef:
    return SubtaskRef(RegionId("out"), VertexId(vertex), subtask)


def a_snapshot(pointer: str = "pool/a") -> Snapshot:
    return Snapshot(SnapshotKind.STATE, pointer=pointer, version=1, bytes=10)


def stored(checkpoint: int = 7) -> Stored:
    return Stored(f"checkpoints/{checkpoint}/manifest.json", {"out": 3}, 100, 10)


def a_checkpoint(*awaiting: SubtaskRef, number: int = 7, attempt: int = 1) -> Checkpoint:
    return Checkpoint(
        number=CheckpointNumber(number),
        attempt=AttemptNumber(attempt),
        kind=CheckpointKind.PERIODIC,
        triggered_at=NOW,
        expires_at=after(60),
        awaiting=dict.fromkeys(awaiting, SnapshotKind.STATE),
    )


def an_attempt(status: AttemptStatus = AttemptStatus.RUNNING, **changes: Any) -> Attempt:
    values: Mapping[str, Any] = {"number": AttemptNumber(1), "launched_at": NOW, **changes}
    return Attempt(status=status, **values)


def a_failure(message: str = "boom", *, restartable: bool = True) -> Failure:
    return Failure(FailureKind.INFRASTRUCTURE, message, is_restartable=restartable)


def a_job(
    status: JobStatus = JobStatus.RUNNING,
    restart: RestartStrategy = PATIENT,
    **changes: Any,
) -> Job:
    values: Mapping[str, Any] = {
        "desired": Desired.RUNNING,
        "attempt": AttemptNumber(1),
        "reason": "submitted",
        "since": NOW,
        **changes,
    }
    return Job(status=status, restart=restart, **values)
