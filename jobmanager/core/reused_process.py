"""The process of a runner, which may serve several runners one after the other.

A runner is one launch of one attempt: it has an id, a secret and a log of its own. Its process may
outlive it:

    serving ──announced──▶ returning ──offered──▶ offered ──exit recorded──▶ idle
       ▲                   (cleans up)            (its runner is            │ taken
       │                                           about to exit)           ▼
       └──────────────────────────accepted───────────────────────────── handed over

    any ──doubted, or an event out of order──▶ doomed

A process serves at most one runner at a time, and its runner has exited in the database before the
process is given to the next one. So whoever kills a runner asks `serves` first: a process that is
idle or serves another runner by now is left alone.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from jobmanager.core.ids import RunnerId


class ProcessPhase(StrEnum):
    SERVING = "serving"
    RETURNING = "returning"
    """The attempt has ended, and the process cleans up behind it."""
    OFFERED = "offered"
    """The process is clean. The exit of its runner is being recorded."""
    IDLE = "idle"
    HANDED_OVER = "handed over"
    """It was given to a runner, and has not confirmed that."""
    DOOMED = "doomed"
    """It will serve nobody any more."""


@dataclass(frozen=True, slots=True)
class ReusedProcess:
    id: UUID
    """The id of the first runner that it serves."""
    runner: RunnerId | None
    """The runner that it serves; None: idle."""
    phase: ProcessPhase = ProcessPhase.SERVING
    served: int = 1
    """How many runners it was given to, with the one that it serves."""

    def serves(self, runner: RunnerId) -> bool:
        """Whether the end of this process is the end of that runner."""
        return self.runner == runner

    @property
    def is_expected(self) -> bool:
        """Whether it is about to become idle."""
        return self.phase in (ProcessPhase.RETURNING, ProcessPhase.OFFERED)


@dataclass(frozen=True, slots=True)
class ReturnAnnounced:
    """The process says: the runner's attempt has ended, and it begins to clean up."""

    runner: RunnerId


@dataclass(frozen=True, slots=True)
class ProcessOffered:
    """The process says: nothing of the runner is left, and another job may come."""

    runner: RunnerId


@dataclass(frozen=True, slots=True)
class ExitRecorded:
    """The database says that the runner has exited."""

    runner: RunnerId


@dataclass(frozen=True, slots=True)
class ProcessTaken:
    """The process is to serve this runner, which is in the database already."""

    runner: RunnerId


@dataclass(frozen=True, slots=True)
class TakeConfirmed:
    """The process says that it serves the runner."""

    runner: RunnerId


@dataclass(frozen=True, slots=True)
class ProcessDoubted:
    """It is killed, it was lost, or it is not wanted any more."""


ProcessEvent = (
    ReturnAnnounced | ProcessOffered | ExitRecorded | ProcessTaken | TakeConfirmed | ProcessDoubted
)
_BEFORE = {
    ReturnAnnounced: ProcessPhase.SERVING,
    ProcessOffered: ProcessPhase.RETURNING,
    ExitRecorded: ProcessPhase.OFFERED,
    TakeConfirmed: ProcessPhase.HANDED_OVER,
}
_AFTER = {
    ReturnAnnounced: ProcessPhase.RETURNING,
    ProcessOffered: ProcessPhase.OFFERED,
    ExitRecorded: ProcessPhase.IDLE,
    TakeConfirmed: ProcessPhase.SERVING,
}


def step(process: ReusedProcess, event: ProcessEvent) -> ReusedProcess:
    """Return the process after the event. What is out of order makes it doomed: nothing is known
    for sure of such a process any more.
    """
    match event:
        case ProcessDoubted():
            return replace(process, phase=ProcessPhase.DOOMED)
        case ProcessTaken(runner=runner):
            if process.phase is not ProcessPhase.IDLE:
                return replace(process, phase=ProcessPhase.DOOMED)
            handed_over = ProcessPhase.HANDED_OVER
            return replace(process, phase=handed_over, runner=runner, served=process.served + 1)
        case ReturnAnnounced() | ProcessOffered() | ExitRecorded() | TakeConfirmed():
            kind = type(event)
            if process.phase is not _BEFORE[kind] or process.runner != event.runner:
                return replace(process, phase=ProcessPhase.DOOMED)
            phase = _AFTER[kind]
            is_idle = phase is ProcessPhase.IDLE
            return replace(process, phase=phase, runner=None if is_idle else process.runner)
        case _:
            assert_never(event)
