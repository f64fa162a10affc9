"""Use case: check whether a running job makes progress, and record when its health changes."""

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
    """Make the event of examining the job as it was read."""
    return HealthExamined(
        now, limits, listening_since, running.heartbeat_at, running.checkpointed_at
    )


def is_news(running: RunningJob, event: HealthExamined) -> bool:
    """Whether the health has changed. This is asked for all jobs, and without locks."""
    found = health_rules.examine(running.stored, running.attempt, event)
    return health_rules.is_news(running.stored, found)


async def note(
    uow: UnitOfWork, job_id: JobId, limits: HealthLimits, listening_since: datetime, now: datetime
) -> None:
    """Examine the job again, under its lock, and record its health."""
    async with uow:
        await uow.jobs.get_for_update(job_id)
        for running in await uow.jobs.running(only=job_id):
            await lives.move(uow, job_id, examination(running, limits, listening_since, now))
        await uow.commit()
