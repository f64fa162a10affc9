"""What becomes of savepoints and operations when their checkpoint or attempt moves on.

Called inside the use cases that move those; the caller holds the job's lock.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from jobmanager.core import operation as operations
from jobmanager.core.attempt import (
    AttemptEvent,
    AttemptFailed,
    AttemptStopped,
    RunnerExited,
    RunnerWentSilent,
)
from jobmanager.core.checkpoint import Checkpoint
from jobmanager.core.operation import OperationKind, PhaseEnded, PhaseFailed
from jobmanager.core.plan import SnapshotKind
from jobmanager.core.savepoint import SavepointStatus
from jobmanager.services.ports import HistoryEntry, StoredJob, UnitOfWork


async def savepoint_completed(
    uow: UnitOfWork, stored: StoredJob, checkpoint: Checkpoint, now: datetime
) -> None:
    savepoint = await uow.savepoints.of_checkpoint(stored.id, checkpoint.number)
    files = checkpoint.stored
    assert files is not None
    await uow.savepoints.save(
        replace(
            savepoint,
            status=SavepointStatus.COMPLETED,
            completed_at=now,
            bytes=files.bytes,
            regions=_regions(checkpoint),
        )
    )
    operation = await uow.operations.of_savepoint(savepoint.id)
    ended = PhaseEnded(now, "savepoint", savepoint.directory)
    moved = replace(operation, operation=operations.transition(operation.operation, ended))
    await uow.operations.save(moved)
    await uow.history.add(
        stored.id,
        HistoryEntry(
            now,
            "savepoint_completed",
            f"{operation.operation.kind} {operation.id.hex}",
            checkpoint.attempt,
            checkpoint.number,
            {"directory": savepoint.directory, "savepoint": savepoint.id.hex},
        ),
    )


async def savepoint_failed(
    uow: UnitOfWork, stored: StoredJob, checkpoint: Checkpoint, now: datetime
) -> None:
    savepoint = await uow.savepoints.of_checkpoint(stored.id, checkpoint.number)
    why = f"{checkpoint.aborted_because}: {checkpoint.detail}"
    await uow.savepoints.save(replace(savepoint, status=SavepointStatus.FAILED, failure=why))
    operation = await uow.operations.of_savepoint(savepoint.id)
    failed = PhaseFailed(now, "savepoint", why)
    moved = replace(operation, operation=operations.transition(operation.operation, failed))
    await uow.operations.save(moved)


async def as_stopped(
    uow: UnitOfWork, stored: StoredJob, event: AttemptEvent, now: datetime
) -> AttemptEvent:
    """The event, or a stop in its place: an attempt that ends in whatever way after the
    savepoint of its stop was completed has processed nothing since, and is stopped.
    """
    if not isinstance(event, AttemptFailed | RunnerExited | RunnerWentSilent | AttemptStopped):
        return event
    stopping = await uow.operations.stopping(stored.id)
    if stopping is None or stopping.operation.phase != "stop":
        return event
    savepoint = await uow.savepoints.get(stopping.savepoint_id)
    return AttemptStopped(
        now,
        f"stopped with savepoint {savepoint.directory}",
        is_cancellation=stopping.operation.kind is OperationKind.CANCEL,
    )


async def attempt_ended(uow: UnitOfWork, stored: StoredJob, how: str, now: datetime) -> None:
    """The attempt is over: a stop that got as far as its second phase is complete."""
    stopping = await uow.operations.stopping(stored.id)
    if stopping is not None:
        ended = PhaseEnded(now, "stop", how)
        await uow.operations.save(
            replace(stopping, operation=operations.transition(stopping.operation, ended))
        )


def _regions(checkpoint: Checkpoint) -> dict[str, Any]:
    """Batch, offsets and watermark of each region, from the acks."""
    assert checkpoint.stored is not None
    regions: dict[str, Any] = {
        region: {"batch": batch, "offsets": {}, "watermark": None}
        for region, batch in checkpoint.stored.batches.items()
    }
    for ref, snapshot in checkpoint.snapshots.items():
        if snapshot.kind is SnapshotKind.OFFSETS:
            regions[ref.region]["offsets"][ref.vertex] = snapshot.offsets
            if snapshot.watermark is not None:
                regions[ref.region]["watermark"] = snapshot.watermark.isoformat()
    return regions
