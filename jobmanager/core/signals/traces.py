"""Spans of checkpoints, operations and attempts, made of what the database knows after their end.

    checkpoint 7                 trigger ─────────────────────▶ end
      bids/0                     trigger ───▶ ack
      revenue/1                  trigger ────────────────▶ ack
    rescale                      request ─────────────────────▶ end
      savepoint, stop, …         one span a phase
    attempt 3                    launch ──────────────────────▶ end
      start, run                 launch ──▶ running ──────────▶ end

Each is a trace of its own. Ids are hashes of the names of what a span is about: whoever makes the
spans of a checkpoint again, such as the next leader, makes the same spans, and a collector that
gets them twice has one trace.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from jobmanager.core.ids import JobId
from jobmanager.core.life.attempt import AttemptStatus
from jobmanager.core.life.checkpoint import CheckpointStatus, Stored
from jobmanager.core.life.operation import OperationStatus
from jobmanager.core.life.records import StoredAttempt, StoredCheckpoint, StoredOperation

AttributeValue = str | int | bool
_LONGEST_TEXT = 500


@dataclass(frozen=True, slots=True)
class FinishedSpan:
    trace_id: int
    """128 bits, not 0."""
    span_id: int
    """64 bits, not 0."""
    parent_id: int | None
    name: str
    started_at: datetime
    ended_at: datetime
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    error: str | None = None
    """None: what the span is about was a success."""


def spans_of_checkpoint(stored: StoredCheckpoint, job_name: str) -> Iterator[FinishedSpan]:
    checkpoint = stored.checkpoint
    if checkpoint.ended_at is None:
        return
    name = f"checkpoint/{stored.job_id.hex}/{checkpoint.number}"
    about = {
        **_about(stored.job_id, job_name),
        "headgate.attempt": checkpoint.attempt,
        "headgate.checkpoint": checkpoint.number,
    }
    facts: dict[str, AttributeValue] = {
        **about,
        "headgate.checkpoint.kind": checkpoint.kind,
        "headgate.checkpoint.status": checkpoint.status,
    }
    if checkpoint.stored is not None:
        facts["headgate.bytes"] = checkpoint.stored.bytes
        facts["headgate.new_bytes"] = checkpoint.stored.new_bytes
    is_complete = checkpoint.status is CheckpointStatus.COMPLETED
    why = f"{checkpoint.aborted_because}: {checkpoint.detail}"
    yield _span(
        name,
        None,
        "checkpoint",
        checkpoint.triggered_at,
        checkpoint.ended_at,
        facts,
        None if is_complete else why,
    )
    for ref in sorted({*checkpoint.snapshots, *checkpoint.awaiting}):
        snapshot, acked_at = checkpoint.snapshots.get(ref), stored.acked_at.get(ref)
        inner: dict[str, AttributeValue] = {
            **about,
            "headgate.region": ref.region,
            "headgate.vertex": ref.vertex,
            "headgate.subtask": ref.subtask,
        }
        if snapshot is not None:
            inner |= {"headgate.snapshot": snapshot.kind, "headgate.bytes": snapshot.bytes}
            inner |= dict(_times(checkpoint.stored, ref.region))
        yield _span(
            name,
            f"{ref.region}/{ref.vertex}/{ref.subtask}",
            f"{ref.vertex}/{ref.subtask}",
            checkpoint.triggered_at,
            acked_at or checkpoint.ended_at,
            inner,
            None if acked_at is not None else "no ack",
        )


def _times(stored: Stored | None, region: str) -> Iterator[tuple[str, AttributeValue]]:
    """How long the runner waited for the end of a batch, and then wrote."""
    if stored is None:
        return
    if (waited := stored.times.waited_ms.get(region)) is not None:
        yield "headgate.waited_ms", waited
    if stored.times.snapshot_ms is not None:
        yield "headgate.snapshot_ms", stored.times.snapshot_ms


def spans_of_operation(stored: StoredOperation, job_name: str) -> Iterator[FinishedSpan]:
    operation = stored.operation
    if operation.ended_at is None:
        return
    name = f"operation/{stored.id.hex}"
    about = {
        **_about(stored.job_id, job_name),
        "headgate.operation": stored.id.hex,
        "headgate.operation.kind": operation.kind,
    }
    facts = {**about, "headgate.operation.status": operation.status}
    if stored.change is not None:
        facts["headgate.parallelism.before"] = stored.change.before.parallelism
        facts["headgate.parallelism.after"] = stored.change.after.parallelism
    error = None if operation.status is OperationStatus.COMPLETED else operation.error
    yield _span(
        name, None, str(operation.kind), stored.created_at, operation.ended_at, facts, error
    )
    for place, phase in enumerate(operation.phases):
        is_last = place == len(operation.phases) - 1
        yield _span(
            name,
            f"{place}/{phase.name}",
            phase.name,
            phase.started_at,
            phase.ended_at or operation.ended_at,
            {**about, "headgate.phase": phase.name},
            error if is_last else None,
        )


def spans_of_attempt(stored: StoredAttempt, job_name: str) -> Iterator[FinishedSpan]:
    attempt = stored.attempt
    if attempt.ended_at is None:
        return
    name = f"attempt/{stored.job_id.hex}/{attempt.number}"
    about = {**_about(stored.job_id, job_name), "headgate.attempt": attempt.number}
    facts = {**about, "headgate.attempt.status": attempt.status}
    error = None
    if attempt.status is AttemptStatus.FAILED and attempt.failure is not None:
        facts["headgate.failure"] = attempt.failure.kind
        error = attempt.failure.message
    yield _span(name, None, "attempt", attempt.launched_at, attempt.ended_at, facts, error)
    started_at = attempt.running_at
    yield _span(
        name,
        "start",
        "start",
        attempt.launched_at,
        started_at or attempt.ended_at,
        about,
        error if started_at is None else None,
    )
    if started_at is not None:
        yield _span(name, "run", "run", started_at, attempt.ended_at, about, error)


def _span(
    trace: str,
    inner: str | None,
    name: str,
    started_at: datetime,
    ended_at: datetime,
    attributes: Mapping[str, AttributeValue],
    error: str | None,
) -> FinishedSpan:
    root = _number(f"{trace}#", 8)
    return FinishedSpan(
        trace_id=_number(trace, 16),
        span_id=root if inner is None else _number(f"{trace}#{inner}", 8),
        parent_id=None if inner is None else root,
        name=name,
        started_at=started_at,
        ended_at=max(started_at, ended_at),
        attributes=attributes,
        error=error[:_LONGEST_TEXT] if error is not None else None,
    )


def _number(name: str, size: int) -> int:
    """Return an id of that many bytes. 0 means "no id" to OpenTelemetry."""
    return int.from_bytes(sha256(f"headgate/{name}".encode()).digest()[:size]) or 1


def _about(job_id: JobId, job_name: str) -> dict[str, AttributeValue]:
    return {"headgate.job.id": job_id.hex, "headgate.job.name": job_name}
