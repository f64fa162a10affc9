"""The requests of users to a simulated JobManager, answered as `jobmanager/services` does."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from jobmanager.core.ids import CheckpointNumber, JobId, OperationId, SavepointId
from jobmanager.core.life import disposal, request_rules
from jobmanager.core.life import life as lives
from jobmanager.core.life.draft import Life
from jobmanager.core.life.events import (
    CheckpointRequested,
    LifeEvent,
    RescaleRequested,
    SavepointRequested,
    Submitted,
    UpgradeRequested,
)
from jobmanager.core.life.job import JobCancelRequested, JobPauseRequested, JobResumeRequested
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.records import RestorePoint, Savepoint
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.snapshots.layout import MANIFEST
from tests.simulation.database import Transaction
from tests.simulation.graphs import Simulated
from tests.simulation.network import Refused
from tests.simulation.scheduler import Steps

if TYPE_CHECKING:
    from tests.simulation.jobmanager import JobManagerParty

TARGET = "file:///savepoints"


@dataclass(frozen=True, slots=True)
class Submit:
    job: JobId
    simulated: Simulated
    checkpoint_of: JobId | None = None
    """Start from the newest checkpoint of this job."""
    savepoint: Savepoint | None = None
    """Start from this savepoint."""
    claims: bool = False

    def __str__(self) -> str:
        point = ""
        if self.checkpoint_of is not None:
            point = f" from a checkpoint of job {self.checkpoint_of.int}"
        elif self.savepoint is not None:
            point = f" from savepoint {self.savepoint.directory}"
        return f"submit job {self.job.int}{point}"


@dataclass(frozen=True, slots=True)
class CancelJob:
    job: JobId

    def __str__(self) -> str:
        return "cancel the job"


@dataclass(frozen=True, slots=True)
class PauseJob:
    job: JobId

    def __str__(self) -> str:
        return "pause the job"


@dataclass(frozen=True, slots=True)
class ResumeJob:
    job: JobId

    def __str__(self) -> str:
        return "resume the job"


@dataclass(frozen=True, slots=True)
class TakeCheckpoint:
    job: JobId

    def __str__(self) -> str:
        return "take a checkpoint"


@dataclass(frozen=True, slots=True)
class TakeSavepoint:
    """A savepoint, or a stop or a cancellation with one."""

    job: JobId
    id: OperationId
    savepoint: SavepointId
    kind: OperationKind
    drains: bool = False

    def __str__(self) -> str:
        return f"{self.kind} with a savepoint"


@dataclass(frozen=True, slots=True)
class Rescale:
    job: JobId
    id: OperationId
    savepoint: SavepointId
    parallelism: int

    def __str__(self) -> str:
        return f"rescale to {self.parallelism}"


@dataclass(frozen=True, slots=True)
class Upgrade:
    job: JobId
    id: OperationId
    savepoint: SavepointId
    simulated: Simulated

    def __str__(self) -> str:
        return "upgrade to another graph"


@dataclass(frozen=True, slots=True)
class Dispose:
    job: JobId
    """Which has taken the savepoint."""
    savepoint: SavepointId

    def __str__(self) -> str:
        return f"dispose of savepoint {self.savepoint.hex[:8]}"


Request = (
    Submit
    | CancelJob
    | PauseJob
    | ResumeJob
    | TakeCheckpoint
    | TakeSavepoint
    | Rescale
    | Upgrade
    | Dispose
)


def answer_to(jobmanager: "JobManagerParty", request: Request) -> Steps[str]:
    if jobmanager.term is None:
        raise Refused(503, "this JobManager does not lead")
    if isinstance(request, Submit):
        yield from _submit(jobmanager, request)
    elif request.job not in jobmanager.database.lives:
        raise Refused(404, "no such job")
    elif isinstance(request, Dispose):
        yield from _dispose(jobmanager, request)
    else:
        yield from jobmanager.use(request.job, lambda life: _event(jobmanager, life, request))
    return "accepted"


def _event(jobmanager: "JobManagerParty", life: Life, request: Any) -> LifeEvent | None:
    """None: the request was made before, and this is the same again."""
    now = jobmanager.now()
    match request:
        case CancelJob():
            return JobCancelRequested(now, "a user asked for it")
        case PauseJob():
            return JobPauseRequested(now, "a user asked for it")
        case ResumeJob():
            return JobResumeRequested(now, "a user asked for it")
        case TakeCheckpoint():
            return CheckpointRequested(now)
        case TakeSavepoint(id=id, savepoint=savepoint, kind=kind):
            if (known := life.operations.get(id)) is not None:
                request_rules.check_repetition(known, request.job, kind)
                return None
            return SavepointRequested(now, id, savepoint, kind, TARGET, request.drains)
        case Rescale(id=id, savepoint=savepoint, parallelism=parallelism):
            if (known := life.operations.get(id)) is not None:
                request_rules.check_repetition(known, request.job, OperationKind.RESCALE)
                return None
            return RescaleRequested(now, id, savepoint, TARGET, parallelism)
        case Upgrade(id=id, savepoint=savepoint, simulated=wanted):
            if (known := life.operations.get(id)) is not None:
                request_rules.check_repetition(known, request.job, OperationKind.UPGRADE)
                return None
            p = life.job.parallelism
            return UpgradeRequested(now, id, savepoint, TARGET, wanted.document, p)
        case _:
            raise AssertionError(request)


def _submit(jobmanager: "JobManagerParty", request: Submit) -> Steps[None]:
    database = jobmanager.database
    point = _restore_point(jobmanager, request)
    yield None
    transaction = database.begin(jobmanager.term)
    try:
        if request.job in database.lives:
            return  # the same again
        if point is not None:
            yield from _hold(jobmanager, transaction, point)
        graph, document = request.simulated.graph, request.simulated.document
        submitted = Submitted(
            jobmanager.now(), request.job, document, graph, graph.parallelism, point
        )
        step = lives.begin(submitted)
        transaction.save(None, None, step)
        transaction.write(
            lambda: database.add_to_outbox(request.job, step.effects),  # type: ignore[arg-type]
            request.job,
            is_news=True,
        )
        yield None
        if request.job in database.lives:
            return  # somebody was quicker: the key is unique
        transaction.commit()
    finally:
        transaction.close()


def _dispose(jobmanager: "JobManagerParty", request: Dispose) -> Steps[None]:
    """As `services/savepoints.py`: the real rule says whether it may go."""
    database = jobmanager.database
    transaction = database.begin(jobmanager.term)
    try:
        yield from transaction.lock(request.job)
        life = database.load(request.job)
        saved = life.savepoints[request.savepoint]
        if saved.status is SavepointStatus.DISPOSED:
            return
        users = database.started_from(saved.directory)
        gone = disposal.disposed(saved, life.operation, users, jobmanager.now())
        transaction.write(lambda: database.write_disposal(request.job, gone), request.job)
        yield None
        transaction.commit()
    finally:
        transaction.close()


def _hold(
    jobmanager: "JobManagerParty", transaction: Transaction, point: RestorePoint
) -> Steps[None]:
    """As `restore_points.hold`: it was looked at earlier, and may have gone since."""
    job = JobId(UUID(hex=point.job))
    yield from transaction.lock(job)
    life = jobmanager.database.lives[job]
    if point.checkpoint is not None:
        is_there = point.checkpoint in life.restorable
    else:
        saved = [one for one in life.savepoints.values() if one.directory == point.root]
        is_there = all(one.status is not SavepointStatus.DISPOSED for one in saved)
    if not is_there:
        raise Refused(409, f"{point.name} has been let go of since it was looked at")


def _restore_point(jobmanager: "JobManagerParty", request: Submit) -> RestorePoint | None:
    """As `services/restore_points.py`."""
    if request.savepoint is not None:
        return _saved(jobmanager, request.savepoint, claims=request.claims)
    if request.checkpoint_of is None:
        return None
    life = jobmanager.database.lives[request.checkpoint_of]
    if not life.restorable:
        raise Refused(409, "the job has no checkpoint")
    number = CheckpointNumber(life.restorable[-1])
    stored = life.checkpoints[number].stored
    assert stored is not None
    job = request.checkpoint_of.hex
    return RestorePoint(
        root=f"file:///simulated/jobs/{job}",
        manifest=stored.manifest,
        name=f"checkpoint {number} of job {job}",
        job=job,
        checkpoint=number,
        claim=request.claims,
    )


def _saved(jobmanager: "JobManagerParty", savepoint: Savepoint, *, claims: bool) -> RestorePoint:
    assert savepoint.job_id is not None
    known = jobmanager.database.lives[savepoint.job_id].savepoints[savepoint.id]
    if known.status is not SavepointStatus.COMPLETED:
        raise Refused(409, f"the savepoint is {known.status}")
    return RestorePoint(
        root=known.directory,
        manifest=MANIFEST,
        name=f"savepoint {known.id.hex}",
        job=savepoint.job_id.hex,
        savepoint=known.id.hex,
        claim=claims,
    )
