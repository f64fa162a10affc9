"""Use case: delete garbage in storage, or list what would be deleted.

No transaction is open while files are looked at. None is needed: storage is listed before the
database is read, so every file that was found and is needed has its row by then, and files that
are written later were not found.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from uuid import UUID

from jobmanager.core.errors import CheckpointNotFound, StorageUnavailable
from jobmanager.core.ids import CheckpointNumber, JobId
from jobmanager.core.life.records import Savepoint
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.snapshots import garbage
from jobmanager.core.snapshots.garbage import (
    Garbage,
    GarbageKind,
    GarbageLimits,
    JobFacts,
    Judgement,
)
from jobmanager.core.snapshots.records import Remains
from jobmanager.core.snapshots.storage_uri import UnsupportedStorage
from jobmanager.services.ports.storage import Sweep
from jobmanager.services.ports.unit_of_work import UnitOfWork, UnitsOfWork

_PAGE = 500


@dataclass(frozen=True, slots=True)
class _Known:
    """What the database says, read after storage was listed."""

    jobs: frozenset[str]
    savepoints: tuple[Savepoint, ...]
    restore_roots: frozenset[str]
    """URIs of the savepoints and checkpoints from which jobs that have not ended were started."""

    @property
    def needed(self) -> frozenset[str]:
        """Return the URIs of everything that is kept, in any job's directory."""
        there = (SavepointStatus.IN_PROGRESS, SavepointStatus.COMPLETED)
        kept = (one.directory for one in self.savepoints if one.status in there)
        return self.restore_roots.union(kept)


async def collect(
    units: UnitsOfWork, sweep: Sweep, limits: GarbageLimits, *, deletes: bool
) -> Judgement:
    """Return the garbage, with the reason for each item; delete it if `deletes` is set."""
    found, drafts = await sweep.jobs(), await sweep.drafts()
    async with units() as uow:
        known = await _known(uow)
    unknown_drafts = set(drafts) - {savepoint.directory for savepoint in known.savepoints}
    judged = [
        await _job(units, sweep, JobId(UUID(hex=name)), limits, deletes)
        for name in sorted(found & known.jobs)
    ]
    judged += [
        await sweep.unknown_job(name, known.needed, limits, deletes=deletes)
        for name in sorted(found - known.jobs)
    ]
    judged += [
        await _savepoint(units, sweep, savepoint, known.restore_roots, deletes)
        for savepoint in known.savepoints
    ]
    judged += [
        await _unknown_draft(sweep, directory, limits, deletes)
        for directory in sorted(unknown_drafts)
    ]
    return garbage.together(judged)


async def _known(uow: UnitOfWork) -> _Known:
    jobs = await uow.jobs.all()
    savepoints: list[Savepoint] = []
    while page := await uow.savepoints.all(
        _PAGE, savepoints[-1].created_at if savepoints else None
    ):
        savepoints += page
    return _Known(
        jobs=frozenset(job.id.hex for job in jobs),
        savepoints=tuple(savepoints),
        restore_roots=frozenset(
            job.restore_point.root
            for job in jobs
            if job.restore_point is not None and not job.job.status.is_terminal
        ),
    )


async def _job(
    units: UnitsOfWork, sweep: Sweep, job_id: JobId, limits: GarbageLimits, deletes: bool
) -> Judgement:
    numbers = await sweep.checkpoints(job_id)
    async with units() as uow:
        stored = await uow.jobs.get(job_id)
        pinned = await uow.jobs.pinned(job_id)
        over = {
            number: why
            for number in sorted(numbers - pinned)
            if (why := await _why_over(uow, job_id, number)) is not None
        }
        facts = JobFacts(
            status=stored.job.status,
            ended_at=stored.ended_at,
            has_runner=any(one.job_id == job_id for one in await uow.runners.alive()),
            over=over,
        )
    return await sweep.job(job_id, facts, limits, deletes=deletes)


async def _why_over(uow: UnitOfWork, job_id: JobId, number: CheckpointNumber) -> str | None:
    try:
        found = await uow.checkpoints.get(job_id, number)
    except CheckpointNotFound:
        return "the database has no such checkpoint"
    return garbage.why_over(found.checkpoint, found.discarded_at)


async def _savepoint(
    units: UnitsOfWork,
    sweep: Sweep,
    savepoint: Savepoint,
    restore_roots: Set[str],
    deletes: bool,
) -> Judgement:
    """Find what is left of a savepoint that failed or was disposed of, or the draft of a completed
    savepoint.
    """
    if savepoint.status is SavepointStatus.IN_PROGRESS:
        return Judgement()
    is_complete = savepoint.status is SavepointStatus.COMPLETED
    kept: Mapping[str, int] = {"savepoints": 1} if is_complete else {}
    why = f"savepoint {savepoint.id.hex} is {savepoint.status}"
    try:
        remains = await sweep.remains(savepoint.directory, is_complete=is_complete)
    except (StorageUnavailable, UnsupportedStorage) as error:
        unseen = _drafts([Remains(savepoint.directory, 0)], f"{why}, but unreachable: {error}")
        return Judgement(left=unseen, kept=kept)
    if remains and (but := await _why_not(units, savepoint, restore_roots)):
        return Judgement(left=_drafts(remains, f"{why}, but {but}"), kept=kept)
    if deletes:
        for one in remains:
            await sweep.delete(one)
    return Judgement(garbage=_drafts(remains, why), kept=kept)


def _drafts(remains: Iterable[Remains], why: str) -> tuple[Garbage, ...]:
    return tuple(Garbage(one.path, GarbageKind.SAVEPOINT_DRAFT, one.bytes, why) for one in remains)


async def _why_not(units: UnitsOfWork, savepoint: Savepoint, restore_roots: Set[str]) -> str | None:
    """Return why the remains of a savepoint must not be deleted yet."""
    if savepoint.directory in restore_roots:
        return "a job that has not ended was started from this savepoint"
    if savepoint.job_id is None or savepoint.checkpoint is None:
        return None  # adopted: no runner wrote it
    async with units() as uow:
        order = await uow.checkpoints.get(savepoint.job_id, savepoint.checkpoint)
        runner = await uow.runners.of_attempt(savepoint.job_id, order.checkpoint.attempt)
    if runner is not None and runner.exited_at is None:
        return "the runner that was writing this savepoint is still alive"
    return None


async def _unknown_draft(
    sweep: Sweep, directory: str, limits: GarbageLimits, deletes: bool
) -> Judgement:
    remains = await sweep.remains(directory, is_complete=True)
    judged = [garbage.judge_unknown_draft(one.path, one.bytes, limits) for one in remains]
    if deletes and limits.unknown_jobs:
        for one in remains:
            await sweep.delete(one)
    return garbage.together(judged)
