"""Spans of checkpoints, operations and attempts: their ids, times and errors."""

from datetime import timedelta
from uuid import UUID

from jobmanager.core.ids import (
    AttemptNumber,
    CheckpointNumber,
    JobId,
    OperationId,
    RegionId,
    SavepointId,
    SubtaskRef,
    VertexId,
)
from jobmanager.core.life import checkpoint as checkpoints
from jobmanager.core.life import operation as operations
from jobmanager.core.life.attempt import Attempt, AttemptStatus
from jobmanager.core.life.checkpoint import BarrierAcked, CheckpointExpired, CheckpointKind
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.life.operation import OperationKind, PhaseEnded, PhaseFailed
from jobmanager.core.life.records import StoredAttempt, StoredCheckpoint, StoredOperation
from jobmanager.core.plan.job_plan import SnapshotKind
from jobmanager.core.signals.traces import (
    FinishedSpan,
    spans_of_attempt,
    spans_of_checkpoint,
    spans_of_operation,
)
from tests.support.builders import NOW

JOB = JobId(UUID(int=5))
SOURCE = SubtaskRef(RegionId("out"), VertexId("bids"), 0)
STATE = SubtaskRef(RegionId("out"), VertexId("revenue"), 1)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def a_checkpoint(number: int = 7, *, completes: bool = True) -> StoredCheckpoint:
    begun = checkpoints.trigger(
        CheckpointNumber(number),
        AttemptNumber(2),
        CheckpointKind.PERIODIC,
        {SOURCE: SnapshotKind.OFFSETS, STATE: SnapshotKind.STATE},
        NOW,
        NOW + seconds(60),
    ).checkpoint
    times = checkpoints.BarrierTimes({"out": 700}, 200)
    stored = checkpoints.Stored("m", {"out": 3}, 100, 10, times)
    snapshots = {SOURCE: checkpoints.Snapshot(SnapshotKind.OFFSETS, bytes=4)}
    acked_at = {SOURCE: NOW + seconds(1)}
    if completes:
        snapshots[STATE] = checkpoints.Snapshot(SnapshotKind.STATE, bytes=9)
        acked_at[STATE] = NOW + seconds(2)
    ack = BarrierAcked(NOW + seconds(2), AttemptNumber(2), snapshots, stored)
    acked = checkpoints.transition(begun, ack).checkpoint
    if not completes:
        acked = checkpoints.transition(acked, CheckpointExpired(NOW + seconds(60))).checkpoint
    return StoredCheckpoint(JOB, acked, acked_at, None)


def lasts(span: FinishedSpan) -> float:
    return (span.ended_at - span.started_at).total_seconds()


def test_a_checkpoint_is_a_trace_with_a_span_for_each_subtask() -> None:
    root, bids, revenue = spans_of_checkpoint(a_checkpoint(), "revenue")

    assert (root.name, bids.name, revenue.name) == ("checkpoint", "bids/0", "revenue/1")
    assert (lasts(root), lasts(bids), lasts(revenue)) == (2, 1, 2)
    assert root.parent_id is None
    assert bids.parent_id == revenue.parent_id == root.span_id
    assert len({root.span_id, bids.span_id, revenue.span_id}) == 3
    assert {one.error for one in (root, bids, revenue)} == {None}
    assert bids.attributes["headgate.waited_ms"] == 700
    assert bids.attributes["headgate.snapshot_ms"] == 200
    assert root.attributes["headgate.checkpoint"] == 7
    assert root.attributes["headgate.job.name"] == "revenue"
    assert root.attributes["headgate.bytes"] == 100
    assert revenue.attributes["headgate.bytes"] == 9


def test_ids_are_the_same_whoever_makes_the_spans_and_differ_otherwise() -> None:
    once, again = (list(spans_of_checkpoint(a_checkpoint(), "revenue")) for _ in range(2))
    other = list(spans_of_checkpoint(a_checkpoint(8), "revenue"))

    assert once == again
    assert {one.trace_id for one in once} == {once[0].trace_id}
    assert 0 < once[0].trace_id < 2**128
    assert all(0 < one.span_id < 2**64 for one in once)
    assert other[0].trace_id != once[0].trace_id
    assert not {one.span_id for one in other} & {one.span_id for one in once}


def test_an_aborted_checkpoint_says_who_did_not_ack() -> None:
    root, bids, revenue = spans_of_checkpoint(a_checkpoint(completes=False), "revenue")

    assert root.error == "expired: no ack from revenue/1 in time"
    assert (bids.error, lasts(bids)) == (None, 1)
    assert (revenue.error, lasts(revenue)) == ("no ack", 60)


def test_what_has_not_ended_has_no_spans() -> None:
    begun = operations.begin(OperationKind.STOP, NOW)
    stored = StoredOperation(OperationId(UUID(int=1)), JOB, SavepointId(UUID(int=2)), begun, NOW)
    running = Attempt(AttemptNumber(1), AttemptStatus.RUNNING, NOW)

    assert list(spans_of_operation(stored, "x")) == []
    assert list(spans_of_attempt(StoredAttempt(JOB, running, None, None, None), "x")) == []


def test_an_operation_is_a_trace_with_a_span_for_each_phase() -> None:
    stop = operations.begin(OperationKind.STOP, NOW)
    stop = operations.transition(stop, PhaseEnded(NOW + seconds(3), "savepoint", "there"))
    done = operations.transition(stop, PhaseEnded(NOW + seconds(5), "stop", "done"))
    failed = operations.transition(stop, PhaseFailed(NOW + seconds(4), "stop", "killed"))
    ids = (OperationId(UUID(int=1)), JOB, SavepointId(UUID(int=2)))

    root, *phases = spans_of_operation(StoredOperation(*ids, done, NOW), "x")
    assert (root.name, lasts(root), root.error) == ("stop", 5, None)
    assert [(one.name, lasts(one)) for one in phases] == [("savepoint", 3), ("stop", 2)]
    assert {one.parent_id for one in phases} == {root.span_id}
    root, *phases = spans_of_operation(StoredOperation(*ids, failed, NOW), "x")
    assert root.error == "killed"
    assert [one.error for one in phases] == [None, "killed"]


def test_an_attempt_is_a_trace_of_its_start_and_its_run() -> None:
    failure = Failure(FailureKind.INFRASTRUCTURE, "x" * 9000)
    attempt = Attempt(
        AttemptNumber(3),
        AttemptStatus.FAILED,
        NOW,
        running_at=NOW + seconds(4),
        ended_at=NOW + seconds(10),
        failure=failure,
    )
    never_ran = Attempt(
        AttemptNumber(4), AttemptStatus.FAILED, NOW, ended_at=NOW + seconds(1), failure=failure
    )

    root, start, run = spans_of_attempt(StoredAttempt(JOB, attempt, None, None, None), "x")
    assert (lasts(root), lasts(start), lasts(run)) == (10, 4, 6)
    assert root.error == run.error == "x" * 500
    assert start.error is None
    root, start = spans_of_attempt(StoredAttempt(JOB, never_ran, None, None, None), "x")
    assert start.error == root.error
