"""Use case: see whether a running job really runs, and write it down when that changes."""

from datetime import datetime

from jobmanager.core.ids import JobId
from jobmanager.core.life import health_rules
from jobmanager.core.life.events import HealthExamined
from jobmanager.core.life.health import HealthLimits
from jobmanager.services import lives
from jobmanager.services.ports.jobs import RunningJob
from jobmanager.services.ports.unit_of_work import UnitOfWork


def examination(
    running: RunningJob, limits: HealthLimits, listening_since: datetime, now: datetime
) -> HealthExamined:
    """The event of looking at the job as it was read."""
    return HealthExamined(
        now, limits, listening_since, running.heartbeat_at, running.checkpointed_at
    )


def is_news(running: RunningJob, event: HealthExamined) -> bool:
    """Whether there is anything to write down. One look at all jobs, without a lock, says so."""
    found = health_rules.examine(running.stored, running.attempt, event)
    return health_rules.is_news(running.stored, found)


async def note(
    uow: UnitOfWork, job_id: JobId, limits: HealthLimits, listening_since: datetime, now: datetime
) -> None:
    """Examines the job again, under its lock, and keeps what is found."""
    async with uow:
        await uow.jobs.get_for_update(job_id)
        for running in await uow.jobs.running(only=job_id):
            await lives.move(uow, job_id, examination(running, limits, listening_since, now))
        await uow.commit()
