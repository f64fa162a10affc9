"""The lanes of the outbox: which effects wait for which.

    runners   LaunchAttempt, KillRunner             quick, in the order of a job
    storage   DiscardCheckpoint, DiscardAttempts,   as slow as the storage is
              DisposeSavepoint, LetRestorePointGo

No lane waits for another: a store that hangs stops no launch. In a lane at most so many jobs are
served at once, and of a job one effect after the other, so that one job with much to do leaves
room for the others. In the lane of runners an effect that failed, and is to be tried again
later, holds back the younger effects of its job: a runner is killed after it was launched, and
the next runner is launched after that. In the lane of storage nothing depends on what goes before.
"""

from collections.abc import Iterable, Sequence, Set
from datetime import timedelta
from enum import StrEnum
from typing import Protocol, TypeVar, get_args

from jobmanager.core.ids import JobId
from jobmanager.core.life.effects import (
    DiscardAttempts,
    DiscardCheckpoint,
    DisposeSavepoint,
    ForJobManager,
    KillRunner,
    LaunchAttempt,
    LetRestorePointGo,
)

HOLDS_BACK_FOR_TRIES = 3
"""An effect that has failed so often holds nothing back any more: the fence keeps an old runner
out, and a process that cannot be killed must not keep its job from running."""
_LONGEST_DELAY = timedelta(minutes=1)


class OutboxLane(StrEnum):
    RUNNERS = "runners"
    STORAGE = "storage"

    @property
    def is_ordered(self) -> bool:
        """Whether an effect that failed holds back the younger effects of its job."""
        return self is OutboxLane.RUNNERS


LANES: dict[type[ForJobManager], OutboxLane] = {
    LaunchAttempt: OutboxLane.RUNNERS,
    KillRunner: OutboxLane.RUNNERS,
    DiscardCheckpoint: OutboxLane.STORAGE,
    DiscardAttempts: OutboxLane.STORAGE,
    DisposeSavepoint: OutboxLane.STORAGE,
    LetRestorePointGo: OutboxLane.STORAGE,
}
assert set(LANES) == set(get_args(ForJobManager))


class WaitingEffect(Protocol):
    """An effect of a lane that is not known to be done."""

    @property
    def id(self) -> int:
        """Ascending, in the order in which the effects were decided."""

    @property
    def job_id(self) -> JobId: ...
    @property
    def tries(self) -> int:
        """How often it has failed."""

    @property
    def is_due(self) -> bool:
        """False: it has failed, and is to be tried again later."""


Waiting = TypeVar("Waiting", bound=WaitingEffect)


def ready(lane: OutboxLane, waiting: Iterable[Waiting], busy: Set[JobId]) -> list[Waiting]:
    """The effects that may be carried out now, the oldest first; none of a busy job."""
    held: set[JobId] = set(busy)
    found = []
    for one in sorted(waiting, key=lambda one: one.id):
        if one.job_id in held:
            continue
        if one.is_due:
            found.append(one)
        elif lane.is_ordered and one.tries < HOLDS_BACK_FOR_TRIES:
            held.add(one.job_id)
    return found


def chains(found: Iterable[Waiting], free: int) -> Sequence[Sequence[Waiting]]:
    """What is ready, by job, for at most `free` jobs: those that have waited longest. The effects
    of a chain are carried out one after the other.
    """
    by_job: dict[JobId, list[Waiting]] = {}
    for one in sorted(found, key=lambda one: one.id):
        by_job.setdefault(one.job_id, []).append(one)
    return list(by_job.values())[: max(free, 0)]


def try_again_after(tries: int) -> timedelta:
    """How long an effect waits that has failed so often before, and now once more."""
    return min(timedelta(seconds=2 ** min(tries, 10)), _LONGEST_DELAY)
