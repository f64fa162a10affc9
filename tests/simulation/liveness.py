"""Checks that everything comes to rest after the last fault, and that the output is correct."""

from itertools import groupby

from jobmanager.core.ids import JobId, RegionId, VertexId
from jobmanager.core.life.draft import Life
from jobmanager.core.life.health import Health
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.operation import OperationKind, OperationStatus
from taskrunner.core.sink_records import RecordState
from tests.simulation.graphs import BOUNDED_ROWS
from tests.simulation.invariants import EXACTLY_ONCE, OPERATIONS, RUNNING, InvariantBroken
from tests.simulation.storage import JobStorage
from tests.simulation.world import World


def unsettled(world: World) -> InvariantBroken | None:
    """What has not come to rest yet; None: everything has, and the output is what it has to be.
    Raises `InvariantBroken` if it is not.
    """
    if not world.user.is_done:
        return InvariantBroken(OPERATIONS, "a request is never answered")
    if world.network.cut_off:
        return InvariantBroken(RUNNING, "a runner is cut off for ever")
    if any(row.is_for_jobmanager for row in world.database.outbox.values()):
        return InvariantBroken(OPERATIONS, "an effect is never carried out")
    for life in world.database.lives.values():
        fault = _unsettled_operation(life) or _unsettled_job(world, life)
        if fault is not None:
            return fault
    by_root = sorted(world.storage.jobs.values(), key=lambda one: (one.output_root, one.job))
    for _, jobs in groupby(by_root, key=lambda one: one.output_root):
        _check_output(world, list(jobs))
    return None


def _unsettled_operation(life: Life) -> InvariantBroken | None:
    for one in life.operations.values():
        if one.operation.status is OperationStatus.IN_PROGRESS:
            kind, phase = one.operation.kind, one.operation.phase
            return InvariantBroken(OPERATIONS, f"a {kind} never ends: it is in phase {phase}")
    return None


def _unsettled_job(world: World, life: Life) -> InvariantBroken | None:
    job = life.job.job
    if job.status.is_terminal:
        return None
    if job.status is not JobStatus.RUNNING:
        return InvariantBroken(OPERATIONS, f"the job stays {job.status}")
    if life.job.health is not Health.HEALTHY:
        return InvariantBroken(RUNNING, f"the job stays {life.job.health}")
    for runner in world.runners:
        attempt = runner.newest
        if runner.is_up and attempt is not None and attempt.job == life.job.id:
            is_its = attempt.number == job.attempt and not attempt.has_ended
            queries = attempt.queries.values()
            if is_its and all(one.is_exhausted for one in queries):
                return InvariantBroken(RUNNING, "all input was read, and the job never finishes")
            if is_its and all(one.batches > 0 or one.is_exhausted for one in queries):
                return None
    return InvariantBroken(RUNNING, f"attempt {job.attempt} counts as running and does not run")


def _check_output(world: World, jobs: list[JobStorage]) -> None:
    """Each row up to the last is there once: no gap. What is on its way does not count."""
    lives = [life for one in jobs if (life := world.life(one.job)) is not None]
    if not lives:
        return
    for sink in jobs[0].sinks:
        rows = sorted(row for one in jobs for row in _published(one, sink))
        first = world.invariants.first_row(jobs[0].job, RegionId(sink))
        if rows != list(range(first, first + len(rows))):
            missing = sorted(set(range(first, max(rows, default=first))) - set(rows))
            raise InvariantBroken(EXACTLY_ONCE, f"rows {missing} of {sink} are missing")
        _check_end(world, lives[-1], RegionId(sink), first + len(rows))


def _published(job: JobStorage, sink: VertexId) -> list[int]:
    files = job.sinks.get(sink)
    if files is None:
        return []
    return [
        row
        for record in files.records.values()
        if record.state is RecordState.PUBLISHED
        for _, final in record.files
        for row, _ in files.visible[final]
    ]


def _check_end(world: World, life: Life, region: RegionId, rows: int) -> None:
    """Nothing that was safe is missing at the end."""
    job: JobId = life.job.id
    status = life.job.job.status
    if status is JobStatus.FINISHED and not _was_stopped(life) and rows != BOUNDED_ROWS:
        raise InvariantBroken(EXACTLY_ONCE, f"finished with {rows} of {BOUNDED_ROWS} rows")
    safe = world.invariants.safe_rows(job, region)
    is_held = world.simulated_of(job).variant.is_held
    if status is JobStatus.RUNNING and not is_held and rows < safe:
        raise InvariantBroken(EXACTLY_ONCE, f"{safe} rows were safe, and {rows} are visible")


def _was_stopped(life: Life) -> bool:
    kinds = (OperationKind.STOP, OperationKind.CANCEL)
    return any(
        one.operation.kind in kinds and one.operation.status is OperationStatus.COMPLETED
        for one in life.operations.values()
    )
