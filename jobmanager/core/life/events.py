"""What happens to a job: the events that `life.step` takes.

What happened to the attempt or to a checkpoint is an event of their own machines
(`attempt.py`, `checkpoint.py`), here with the number of the attempt or checkpoint that it is
about. Time and new ids come in with the events.
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
from jobmanager.core.life.job import JobCancelRequested, RestartDue
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.records import RestorePoint
from jobmanager.core.progress import RegionProgress


@dataclass(frozen=True, slots=True)
class Submitted:
    """The first event of a life: `life.begin` takes it."""

    at: datetime
    job_id: JobId
    document: Mapping[str, Any]
    graph: JobGraph
    parallelism: int
    restore_point: RestorePoint | None = None


@dataclass(frozen=True, slots=True)
class AttemptNews:
    """Something happened to an attempt, or its runner said so."""

    attempt: AttemptNumber
    event: AttemptEvent

    @property
    def at(self) -> datetime:
        return self.event.at


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """No runner could be started, and no further try is made."""

    at: datetime
    attempt: AttemptNumber
    error: str


@dataclass(frozen=True, slots=True)
class RunnerLeft:
    """The runner's process is gone."""

    at: datetime
    attempt: AttemptNumber
    """The attempt that the runner was last given."""
    description: str
    last_word: AttemptNews | None = None
    """What the runner wrote down because nobody heard it."""


@dataclass(frozen=True, slots=True)
class RunnerGivenUp:
    """The runner of an attempt that has ended is on a machine that cannot be looked at."""

    at: datetime
    attempt: AttemptNumber
    host: str


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    at: datetime
    attempt: AttemptNumber
    """The attempt that the runner was last given."""
    spoken_of: AttemptNumber | None
    """The attempt that the heartbeat tells of."""
    regions: Sequence[RegionProgress]
    """The progress of each region; empty before the queries have started."""


@dataclass(frozen=True, slots=True)
class CheckpointDue:
    """It is time to look whether the periodic checkpoint is due."""

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
    """A savepoint; or a stop or cancellation with a savepoint, by `kind`."""

    at: datetime
    id: OperationId
    savepoint: SavepointId
    kind: OperationKind
    target: str
    """The directory, a URI, in which the savepoint gets a directory of its own."""
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
    """None: what the graph says."""
    allow_non_restored_state: bool = False


@dataclass(frozen=True, slots=True)
class OperationOverdue:
    """It is time to look whether a rescale or an upgrade has waited for too long."""

    at: datetime
    operation: OperationId


@dataclass(frozen=True, slots=True)
class HealthExamined:
    """It is time to look whether the job really runs."""

    at: datetime
    limits: HealthLimits
    listening_since: datetime
    """From when on this JobManager could have heard of the job."""
    heartbeat_at: datetime | None
    checkpointed_at: datetime | None


LifeEvent = (
    AttemptNews
    | LaunchFailed
    | RunnerLeft
    | RunnerGivenUp
    | HeartbeatReceived
    | JobCancelRequested
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
"""How long an attempt that is cancelled has to come to the end of its batch."""
