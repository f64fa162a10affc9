"""Random events for lives of jobs."""

import random
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life import events
from jobmanager.core.life.attempt import (
    AttemptCancelled,
    AttemptEvent,
    AttemptFailed,
    AttemptFinished,
    AttemptStopped,
    GraceEnded,
    InputEnded,
    QueriesStarted,
    RunnerRegistered,
    RunnerWentSilent,
    StatePrepared,
)
from jobmanager.core.life.checkpoint import (
    AbortReason,
    BarrierAcked,
    BarrierDeclined,
    CheckpointExpired,
)
from jobmanager.core.life.health import HealthLimits
from jobmanager.core.life.job import JobCancelRequested, RestartDue
from jobmanager.core.life.life import Life
from jobmanager.core.life.operation import STOP, OperationKind
from jobmanager.core.progress import RegionProgress, RestoredRegion
from tests.support.builders import NOW, a_document, a_failure
from tests.support.lives import a_request, an_ack

LIMITS = HealthLimits(timedelta(seconds=60), timedelta(seconds=10))
UPGRADED = a_document(name="better", checkpointing={"interval": "7s"})


class Chance:
    """Draws what happens next to a life: sensible, late, repeated and wrong, by a seed."""

    def __init__(self, seed: int, ids_after: int = 0) -> None:
        self._random = random.Random(seed)
        self.now = NOW
        self._ids = ids_after

    def event(self, life: Life) -> events.LifeEvent:
        self.now += timedelta(seconds=self._random.choice((0, 0.1, 1, 5, 30, 400)))
        choice = self._random.random()
        if choice < 0.45:
            return self._of_attempt(life)
        if choice < 0.75:
            return self._of_checkpoint(life)
        if choice < 0.9:
            return self._request()
        return self._look(life)

    def _of_attempt(self, life: Life) -> events.LifeEvent:
        now, number = self.now, self._attempt(life)
        region = RegionProgress(region="out", batch=3, batches=1, is_active=True)
        moved: list[AttemptEvent] = [
            RunnerRegistered(now),
            StatePrepared(now, "done"),
            QueriesStarted(now),
            QueriesStarted(now, [RestoredRegion("out", "checkpoint", 1, 1, "newest")]),
            AttemptStopped(now, "stopped"),
            InputEnded(now),
            AttemptFinished(now),
            AttemptCancelled(now),
            AttemptFailed(now, a_failure(restartable=self._random.random() < 0.9)),
            RunnerWentSilent(now, timedelta(seconds=30)),
            GraceEnded(now),
        ]
        # what moves a job on comes more often than what ends it
        operation = life.operation
        stopped = 8 if operation is not None and operation.operation.phase == STOP else 0.05
        weights = [8, 2, 8, 2, stopped, 1, 0.05, 0.05, 2, 1, 2]
        news = events.AttemptNews(number, self._random.choices(moved, weights)[0])
        others: list[events.LifeEvent] = [
            events.RunnerLeft(now, number, "SIGKILL"),
            events.RunnerLeft(now, number, "exit 0", news),
            events.LaunchFailed(now, number, "no memory"),
            events.RunnerGivenUp(now, number, "far"),
            events.HeartbeatReceived(now, number, self._attempt(life), [region]),
            events.HeartbeatReceived(now, number, None, []),
        ]
        weights = [1, 1, 0.5, 1, 5, 1]
        is_news = self._random.random() < 0.75
        return news if is_news else self._random.choices(others, weights)[0]

    def _of_checkpoint(self, life: Life) -> events.LifeEvent:
        if not life.checkpoints or self._random.random() < 0.3:
            return self._random.choice(
                (events.CheckpointDue(self.now), events.CheckpointRequested(self.now))
            )
        number = self._random.choice(list(life.checkpoints)[-3:])
        attempt = life.checkpoints[number].attempt
        if self._random.random() < 0.1:
            attempt = self._attempt(life)
        ack = an_ack(life, number, self.now, attempt)
        choice = self._random.random()
        if choice < 0.6:
            return ack
        if choice < 0.8:
            return self._part_of(ack)
        if choice < 0.9:
            reason = self._random.choice(list(AbortReason)[:5])
            declined = BarrierDeclined(self.now, attempt, reason, "no space")
            return events.CheckpointNews(number, declined)
        return events.CheckpointNews(number, CheckpointExpired(self.now))

    def _part_of(self, ack: events.CheckpointNews) -> events.CheckpointNews:
        assert isinstance(ack.event, BarrierAcked)
        acked = self._random.sample(sorted(ack.event.snapshots), 2)
        snapshots = {ref: ack.event.snapshots[ref] for ref in acked}
        return replace(ack, event=replace(ack.event, snapshots=snapshots))

    def _request(self) -> events.LifeEvent:
        kind = self._random.choices(list(OperationKind), [4, 0.3, 0.3, 4, 4])[0]
        if self._random.random() < 0.02:
            return JobCancelRequested(self.now, "enough")
        more: dict[str, object] = {}
        if kind is OperationKind.RESCALE:
            more["parallelism"] = self._random.choice((1, 2, 4))
        if kind is OperationKind.UPGRADE:
            more["document"] = UPGRADED
        return a_request(kind, self.now, self._new_id(), self._new_id(), **more)

    def _look(self, life: Life) -> events.LifeEvent:
        looks: list[events.LifeEvent] = [
            RestartDue(self.now),
            events.CheckpointDue(self.now),
            events.HealthExamined(self.now, LIMITS, NOW, None, None),
        ]
        looks += [events.OperationOverdue(self.now, one) for one in life.operations]
        return self._random.choice(looks)

    def _attempt(self, life: Life) -> AttemptNumber:
        """The newest, nearly always."""
        newest = life.job.job.attempt
        return newest if self._random.random() < 0.9 else AttemptNumber(max(1, newest - 1))

    def _new_id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids << 96)  # the directory is named by the first digits
