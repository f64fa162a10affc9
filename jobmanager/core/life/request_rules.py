"""Rules for users' requests about a running job: they begin an operation, or raise why not."""

from datetime import datetime

from jobmanager.core.errors import (
    IdempotencyKeyReused,
    JobHasEnded,
    JobNotRunning,
    StopUnderWay,
    UnsupportedRequest,
)
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.schema_pins import without_schemas
from jobmanager.core.ids import JobId
from jobmanager.core.life import checkpoint_rules, operation, operation_rules
from jobmanager.core.life.attempt import AttemptFailed
from jobmanager.core.life.attempt_rules import move_attempt
from jobmanager.core.life.change import Change, Revision
from jobmanager.core.life.checkpoint import CheckpointKind, SavepointOrder
from jobmanager.core.life.draft import Draft, Life
from jobmanager.core.life.events import (
    OperationOverdue,
    RescaleRequested,
    SavepointRequested,
    UpgradeRequested,
)
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.life.job import Desired, JobStatus
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.records import HistoryEntry, Savepoint, StoredOperation
from jobmanager.core.life.revision import WantedRevision, rescaled, revision_of, upgraded
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.snapshots.layout import savepoint_name
from jobmanager.core.snapshots.storage_uri import below

_DOING = {
    OperationKind.STOP: "stopped",
    OperationKind.CANCEL: "cancelled",
    OperationKind.RESCALE: "rescaled",
    OperationKind.UPGRADE: "upgraded",
}


def begin_savepoint(draft: Draft, event: SavepointRequested) -> None:
    _begin(draft, event, event.kind, drains=event.drains)


def begin_rescale(draft: Draft, event: RescaleRequested) -> None:
    job = draft.life.job
    change = Change(revision_of(job), rescaled(job, event.parallelism))
    _begin(draft, event, OperationKind.RESCALE, change)


def begin_upgrade(draft: Draft, event: UpgradeRequested) -> None:
    job = draft.life.job
    wanted = WantedRevision(event.document, event.parallelism, event.allow_non_restored_state)
    change = Change(revision_of(job), upgraded(job, wanted), event.allow_non_restored_state)
    if change.needs_restart:
        _begin(draft, event, OperationKind.UPGRADE, change)
    else:
        _describe_anew(draft, event, change)


def check_pause(life: Life) -> None:
    """Raise if the job cannot be paused."""
    job = life.job
    if job.graph.mode is Mode.BATCH:
        raise UnsupportedRequest(
            "a batch job cannot be paused: it has no boundary before its end; cancel it"
        )
    if job.job.status.is_terminal or job.job.desired is Desired.CANCELLED:
        raise JobHasEnded(f"job {job.id.hex} cannot be paused: it is {job.job.status}")
    _check_no_operation(life)


def check_resume(life: Life) -> None:
    """Raise if the job will never run again. A job that is not paused is left alone."""
    job = life.job
    if job.job.status.is_terminal or job.job.desired is Desired.CANCELLED:
        raise JobHasEnded(f"job {job.id.hex} cannot be resumed: it is {job.job.status}")


def check_repetition(
    known: StoredOperation, job_id: JobId, kind: OperationKind, wanted: Revision | None = None
) -> None:
    """Raise if a request with a known id is not a repetition of the same request."""
    if (known.job_id, known.operation.kind) != (job_id, kind):
        raise IdempotencyKeyReused(
            f"{known.id.hex} was already used for another request: choose another id"
        )
    if wanted is None or known.change is None:
        return
    after = known.change.after
    is_same = without_schemas(after.document) == without_schemas(wanted.document)
    if not is_same or after.parallelism != wanted.parallelism:
        raise IdempotencyKeyReused(f"{known.id.hex} was used for another {kind} already")


def end_overdue(draft: Draft, event: OperationOverdue) -> None:
    """End the attempt that a rescale or upgrade waited for too long, so that it can proceed."""
    life = draft.life
    current = life.operation
    if current is None or current.id != event.operation:
        return
    phase = current.operation.phases[-1]
    waited = event.at - phase.started_at
    if waited <= life.job.graph.checkpointing.timeout:
        return
    failure = Failure(
        FailureKind.INFRASTRUCTURE,
        f"{current.operation.kind} was in phase {phase.name} for "
        f"{waited.total_seconds():.0f} s, longer than the checkpoint timeout",
    )
    move_attempt(draft, life.job.job.attempt, AttemptFailed(event.at, failure))


def _describe_anew(draft: Draft, event: UpgradeRequested, change: Change) -> None:
    """Give the job a revision with another `meta`. Its attempt does not notice."""
    job, now = draft.life.job, event.at
    if job.job.status.is_terminal:
        raise JobNotRunning(
            f"job {job.id.hex} is {job.job.status}: the graph of an ended job stays as it is"
        )
    _check_no_operation(draft.life)
    after = change.after
    draft.change_job(
        document=after.document,
        graph=graph_document.parse(after.document),
        revision=after.number,
    )
    detail = f"only meta changed, so the job runs on: revision {after.number}"
    done = operation.done_at_once(OperationKind.UPGRADE, operation.META, detail, now)
    stored = StoredOperation(event.id, job.id, None, done, now, change)
    draft.put_operation(stored)
    kind, attempt = OperationKind.UPGRADE, job.job.attempt
    draft.history.append(HistoryEntry(now, f"{kind}_requested", event.id.hex, attempt))
    draft.history.append(operation_rules.ending(draft.life, stored, now))


def _begin(
    draft: Draft,
    event: SavepointRequested | RescaleRequested | UpgradeRequested,
    kind: OperationKind,
    change: Change | None = None,
    *,
    drains: bool = False,
) -> None:
    """Add the operation, with its savepoint."""
    _check(draft.life)
    job, now = draft.life.job, event.at
    directory = below(event.target, savepoint_name(job.id, event.savepoint))
    order = SavepointOrder(
        event.savepoint.hex,
        directory,
        stops=kind is not OperationKind.SAVEPOINT,
        drains=drains,
        keeps_runner=change is not None and change.keeps_runner,
    )
    number = checkpoint_rules.trigger(draft, CheckpointKind.SAVEPOINT, now, order)
    draft.put_savepoint(
        Savepoint(
            id=event.savepoint,
            job_id=job.id,
            checkpoint=number,
            directory=directory,
            status=SavepointStatus.IN_PROGRESS,
            created_at=now,
            parallelism=job.parallelism,
            max_parallelism=job.graph.max_parallelism,
            graph_revision=job.revision,
            parent=job.restore_point.name if job.restore_point else None,
            labels={"taken_by": kind} if kind.is_change else {},
        )
    )
    _write_down(draft, event, kind, change, now)


def _write_down(
    draft: Draft,
    event: SavepointRequested | RescaleRequested | UpgradeRequested,
    kind: OperationKind,
    change: Change | None,
    now: datetime,
) -> None:
    job = draft.life.job
    began = operation.begin(kind, now)
    draft.put_operation(StoredOperation(event.id, job.id, event.savepoint, began, now, change))
    requested = HistoryEntry(now, f"{kind}_requested", event.id.hex, job.job.attempt)
    draft.history.append(requested)


def _check(life: Life) -> None:
    job = life.job
    if job.graph.mode is Mode.BATCH:
        raise UnsupportedRequest("a batch job has no savepoints: it is run again as a whole")
    if job.job.status is not JobStatus.RUNNING:
        hint = ": resume it first" if job.job.status is JobStatus.PAUSED else ""
        raise JobNotRunning(
            f"job {job.id.hex} is {job.job.status}: only a running job takes savepoints{hint}"
        )
    _check_no_operation(life)


def _check_no_operation(life: Life) -> None:
    """Raise if another operation stops or changes the job."""
    if life.operation is not None:
        doing, by = _DOING[life.operation.operation.kind], life.operation.id.hex
        raise StopUnderWay(
            f"job {life.job.id.hex} is being {doing} already, by operation {by}: wait for its end"
        )
