"""Lives of jobs for tests: begun, running, and advanced by events."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from jobmanager.core.graph import graph_document
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, OperationId, SavepointId
from jobmanager.core.life.attempt import (
    AttemptEvent,
    AttemptStopped,
    QueriesStarted,
    RunnerRegistered,
    StatePrepared,
)
from jobmanager.core.life.checkpoint import BarrierAcked, Snapshot, Stored
from jobmanager.core.life.effects import Effect, ForStore
from jobmanager.core.life.events import (
    AttemptNews,
    CheckpointNews,
    HeartbeatReceived,
    LifeEvent,
    RescaleRequested,
    SavepointRequested,
    Submitted,
    UpgradeRequested,
)
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.life import Announcement, Life, Step, begin, step
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.records import HistoryEntry, RestorePoint
from jobmanager.core.progress import RegionProgress
from tests.support.builders import a_document, after

JOB = JobId(UUID(int=1))
TARGET = "file:///savepoints"


class Story:
    """One life, told event by event: the life as it is now, and all that followed so far."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.effects: list[Effect | ForStore] = []
        self.history: list[HistoryEntry | Announcement] = []
        self.last: Step | None = None
        self._ids = 0

    def then(self, *events: LifeEvent) -> "Story":
        for event in events:
            self.last = step(self.life, event)
            self.life = self.last.life
            self.effects += self.last.effects
            self.history += self.last.history
        return self

    @property
    def attempt(self) -> AttemptNumber:
        return self.life.job.job.attempt

    @property
    def status(self) -> JobStatus:
        return self.life.job.job.status

    def new_id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids << 96)  # the directory is named by the first digits

    def hears(self, event: AttemptEvent, attempt: int | None = None) -> "Story":
        """News of the newest attempt, or of another."""
        return self.then(AttemptNews(AttemptNumber(attempt or self.attempt), event))

    def runs(self, at: float) -> "Story":
        """The newest attempt comes up."""
        return self.hears(RunnerRegistered(after(at))).hears(QueriesStarted(after(at)))

    def restores(self, at: float) -> "Story":
        """The newest attempt comes up on the runner it was given, with state to prepare."""
        return self.hears(StatePrepared(after(at), "1 to 2")).hears(QueriesStarted(after(at)))

    def commits(self, at: float, batch: int = 7) -> "Story":
        """A heartbeat tells of a batch that this attempt has committed."""
        region = RegionProgress(region="out", batch=batch, batches=1, is_active=True)
        return self.then(HeartbeatReceived(after(at), self.attempt, self.attempt, [region]))

    def acks(self, at: float, number: int | None = None, attempt: int | None = None) -> "Story":
        """Every subtask acks the newest checkpoint under way, or the one with that number."""
        number = number or self.life.checkpoints_under_way[0].number
        return self.then(an_ack(self.life, number, after(at), attempt))

    def asks(self, kind: OperationKind, at: float, **more: Any) -> "Story":
        return self.then(a_request(kind, after(at), self.new_id(), self.new_id(), **more))

    def stops(self, at: float) -> "Story":
        return self.hears(AttemptStopped(after(at), "stopped"))

    def kinds(self) -> list[str]:
        """Of the history entries so far."""
        return [one.kind for one in self.history if isinstance(one, HistoryEntry)]


def a_submission(
    at: datetime,
    document: Mapping[str, Any] | None = None,
    restore_point: RestorePoint | None = None,
    parallelism: int | None = None,
) -> Submitted:
    document = document or a_document(checkpointing={"interval": "10s", "retained": 2})
    graph = graph_document.parse(document)
    return Submitted(at, JOB, document, graph, parallelism or graph.parallelism, restore_point)


def a_story(
    document: Mapping[str, Any] | None = None, restore_point: RestorePoint | None = None
) -> Story:
    """A job that was just submitted."""
    first = begin(a_submission(after(0), document, restore_point))
    story = Story(first.life)
    story.last, story.effects, story.history = first, list(first.effects), list(first.history)
    return story


def a_running_story(
    document: Mapping[str, Any] | None = None, restore_point: RestorePoint | None = None
) -> Story:
    return a_story(document, restore_point).runs(at=1)


def an_ack(
    life: Life,
    number: int,
    at: datetime,
    attempt: int | None = None,
    *,
    has_new_batches: bool = False,
) -> CheckpointNews:
    checkpoint = life.checkpoints[CheckpointNumber(number)]
    awaited = {**checkpoint.awaiting}
    awaited.update({ref: one.kind for ref, one in checkpoint.snapshots.items()})
    return CheckpointNews(
        checkpoint.number,
        BarrierAcked(
            at,
            AttemptNumber(attempt or checkpoint.attempt),
            {ref: Snapshot(kind, bytes=5) for ref, kind in awaited.items()},
            Stored(f"checkpoints/{number}/manifest.json", {"out": number}, 100, 10),
            has_new_batches,
        ),
    )


def a_request(
    kind: OperationKind, at: datetime, operation: UUID, savepoint: UUID, **more: Any
) -> SavepointRequested | RescaleRequested | UpgradeRequested:
    ids = OperationId(operation), SavepointId(savepoint)
    match kind:
        case OperationKind.RESCALE:
            return RescaleRequested(at, *ids, TARGET, **{"parallelism": 4, **more})
        case OperationKind.UPGRADE:
            return UpgradeRequested(at, *ids, TARGET, **more)
        case _:
            return SavepointRequested(at, *ids, kind, TARGET, **more)


def of_type(effects: Sequence[Effect | ForStore], *kinds: type[Any]) -> list[Any]:
    return [one for one in effects if isinstance(one, kinds)]
