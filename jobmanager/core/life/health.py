"""The health of a running job: a pure function of its last reports.

    HEALTHY ──input waits or a batch runs, and nothing is committed──▶ STALLED
       └─────heartbeats late, checkpoints fail or are missing────────▶ DEGRADED

Both lead back to HEALTHY when the reason is gone. Only a job that is RUNNING has a health. Health
is only reported: no job is restarted because of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from jobmanager.core.graph.job_graph import Checkpointing

_MEDIANS = 10
"""A batch that takes so many times longer than usual is stuck."""
_INTERVALS = 3
"""A job without a completed checkpoint for so many intervals plus the timeout is degraded."""


class Health(StrEnum):
    HEALTHY = "healthy"
    STALLED = "stalled"
    DEGRADED = "degraded"


@dataclass(frozen=True, slots=True)
class HealthLimits:
    stall_after: timedelta
    """The least time without a committed batch that counts as a stall."""
    heartbeat_late_after: timedelta


@dataclass(frozen=True, slots=True)
class RegionVitals:
    """What the runner reports about one region."""

    region: str
    unmoved: timedelta | None
    """How long the region had work and committed nothing; None: unknown."""
    median_batch: timedelta = timedelta()
    batch: int | None = None
    """The last committed batch."""
    activity: str | None = None
    """What Spark says it is doing."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """What is known about a running job."""

    since: datetime
    """Since when the job has been running and this JobManager has been listening."""
    heard_at: datetime
    """The runner's last heartbeat."""
    regions: Sequence[RegionVitals]
    failed_checkpoints: int
    """In a row."""
    checkpointed_at: datetime | None
    """When the newest checkpoint completed."""
    checkpointing: Checkpointing | None
    """None: a batch job, which takes no checkpoints."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    health: Health
    reason: str | None = None
    """None: healthy. The same reason has the same text: it contains no growing numbers."""


def shown_state(status: str, health: str) -> str:
    """Return the state shown to users: a running job that is not healthy is stalled or degraded."""
    return status if health == Health.HEALTHY else health


def diagnose(vitals: Vitals, limits: HealthLimits, now: datetime) -> Diagnosis:
    """Return the worst health that applies, with all reasons."""
    late = list(_late(vitals, limits, now))
    stalled = list(_stalled(vitals, limits))
    degraded = list(_without_checkpoints(vitals, now))
    reasons = [*late, *stalled, *degraded]
    if not reasons:
        return Diagnosis(Health.HEALTHY)
    # The last progress of a silent runner is out of date: only the silence is certain.
    health = Health.STALLED if stalled and not late else Health.DEGRADED
    return Diagnosis(health, "; ".join(reasons))


def _late(vitals: Vitals, limits: HealthLimits, now: datetime) -> Iterator[str]:
    if now - max(vitals.heard_at, vitals.since) > limits.heartbeat_late_after:
        yield f"no heartbeat from the runner since {_moment(vitals.heard_at)}"


def _stalled(vitals: Vitals, limits: HealthLimits) -> Iterator[str]:
    for one in vitals.regions:
        limit = max(limits.stall_after, one.median_batch * _MEDIANS)
        if one.unmoved is not None and one.unmoved > limit:
            after = "since it started" if one.batch is None else f"after batch {one.batch}"
            doing = f" (Spark: {one.activity})" if one.activity else ""
            yield (
                f"region {one.region} has input and has committed nothing {after} "
                f"for more than {_seconds(limit)}{doing}"
            )


def _without_checkpoints(vitals: Vitals, now: datetime) -> Iterator[str]:
    if vitals.checkpointing is None:
        return
    if vitals.failed_checkpoints:
        count = vitals.failed_checkpoints
        yield "the last checkpoint failed" if count == 1 else f"the last {count} checkpoints failed"
    limit = vitals.checkpointing.interval * _INTERVALS + vitals.checkpointing.timeout
    if now - max(vitals.checkpointed_at or vitals.since, vitals.since) > limit:
        last = (
            "yet" if vitals.checkpointed_at is None else f"since {_moment(vitals.checkpointed_at)}"
        )
        yield f"no checkpoint has completed {last}"


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f} s"
