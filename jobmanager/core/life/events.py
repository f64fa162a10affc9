"""The events of a job, which `life.step` takes.

Events of an attempt or a checkpoint are those of their own state machines (`attempt.py`,
`checkpoint.py`), here with the number of the attempt or checkpoint. Times and new ids are part of
the events.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import (
    AttemptNumber,
    CheckpointNumber,
    JobId,
    OperationId,
    SavepointId,
)
from jobmanager.core.life.attempt import AttemptEvent
from jobmanager.core.life.checkpoint import BarrierAcked, BarrierDeclined, CheckpointExpired
from jobmanager.core.life.health import HealthLimits
from jobmanager.core.life.job import (
    JobCancelRequested,
    JobPauseRequested,
    JobResumeRequested,
    RestartDue,
)
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.records import RestorePoint
from jobmanager.core.progress import RegionProgress


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job was submitted: the first event of a life, which `life.begin` takes."""

    at: datetime
    job_id: JobId
    document: Mapping[str, Any]
    graph: JobGraph
    parallelism: int
    restore_point: RestorePoint | None = None


@dataclass(frozen=True, slots=True)
class AttemptNews:
    """An event of an attempt, observed by the JobManager or reported by the runner."""

    attempt: AttemptNumber
    event: AttemptEvent

    @property
    def at(self) -> datetime:
        return self.event.at


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """No runner could be started, and there will be no further try."""

    at: datetime
    attempt: AttemptNumber
    error: str


@dataclass(frozen=True, slots=True)
class RunnerLeft:
    """The runner's process has ended."""

    at: datetime
    attempt: AttemptNumber
    """The attempt that the runner was last given."""
    description: str
    last_word: AttemptNews | None = None
    """The runner's last report, which it wrote to a file because no JobManager answered."""


@dataclass(frozen=True, slots=True)
class RunnerGivenUp:
    """The runner of an attempt that has ended is on a machine that cannot be reached."""

    at: datetime
    attempt: AttemptNumber
    host: str


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    at: datetime
    attempt: AttemptNumber
    """The attempt that the runner was last given."""
    spoken_of: AttemptNumber | None
    """The attempt that the heartbeat is about."""
    regions: Sequence[RegionProgress]
    """The progress of each region; empty before the queries have started."""


@dataclass(frozen=True, slots=True)
class CheckpointDue:
    """Check whether the periodic checkpoint is due."""

    at: datetime


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    at: datetime


@dataclass(frozen=True, slots=True)
class CheckpointNews:
    """A runner acked or declined a barrier, or a checkpoint was not complete in time."""

    checkpoint: CheckpointNumber
    event: BarrierAcked | BarrierDeclined | CheckpointExpired

    @property
    def at(self) -> datetime:
        return self.event.at


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """A request for a savepoint, or for a stop or cancellation with a savepoint, by `kind`."""

    at: datetime
    id: OperationId
    savepoint: SavepointId
    kind: OperationKind
    target: str
    """The directory, a URI, in which a directory for the savepoint is made."""
    drains: bool = False


@dataclass(frozen=True, slots=True)
class RescaleRequested:
    at: datetime
    id: OperationId
    savepoint: SavepointId
    target: str
    parallelism: int


@dataclass(frozen=True, slots=True)
class UpgradeRequested:
    at: datetime
    id: OperationId
    savepoint: SavepointId
    target: str
    document: Mapping[str, Any]
    parallelism: int | None = None
    """None: the graph's own."""
    allow_non_restored_state: bool = False


@dataclass(frozen=True, slots=True)
class OperationOverdue:
    """Check whether a rescale or an upgrade has waited too long."""

    at: datetime
    operation: OperationId


@dataclass(frozen=True, slots=True)
class HealthExamined:
    """Check the health of the job."""

    at: datetime
    limits: HealthLimits
    listening_since: datetime
    """The time from which on this JobManager could have received heartbeats of the job."""
    heartbeat_at: datetime | None
    checkpointed_at: datetime | None


LifeEvent = (
    AttemptNews
    | LaunchFailed
    | RunnerLeft
    | RunnerGivenUp
    | HeartbeatReceived
    | JobCancelRequested
    | JobPauseRequested
    | JobResumeRequested
    | RestartDue
    | CheckpointDue
    | CheckpointRequested
    | CheckpointNews
    | SavepointRequested
    | RescaleRequested
    | UpgradeRequested
    | OperationOverdue
    | HealthExamined
)

CANCEL_GRACE = timedelta(seconds=30)
"""How long a cancelled attempt has to finish its batch."""
PAUSE_GRACE = timedelta(minutes=2)
"""The same of an attempt that is paused. The batch is computed again if that is not enough."""
KEEP_PAUSED_RUNNER = timedelta(hours=1)
"""How long the runner of a paused job waits, with its Spark session, for the job to be resumed."""
