"""Builders of what an attempt is told, and a driver that keeps what it was told to do."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

from jobmanager.core.ids import RegionId
from jobmanager.core.life.checkpoint import AckOutcome
from jobmanager.protocol.messages import (
    Barrier,
    BarrierAcks,
    EndingReport,
    FailureReport,
    SavepointTarget,
    Stop,
)
from taskrunner.core.attempt import events, machine
from taskrunner.core.attempt.events import BatchesOfRegion, Event
from taskrunner.core.attempt.instructions import (
    AskRegionsToStop,
    DrainRegions,
    Instruction,
    Prepare,
    Report,
    SendAcks,
    SendDecline,
    ShowAllOutput,
    ShowOutput,
    StartQueries,
    StopRegionsAtOnce,
    TakeSnapshot,
    WatchBatches,
)
from taskrunner.core.attempt.phases import AttemptState

OUT, RAW = RegionId("out"), RegionId("raw")
REGIONS = (OUT, RAW)
SAVEPOINT = UUID(int=9)
NEVER = datetime(2100, 1, 1, tzinfo=UTC)
"""The machine goes by the time that is left, never by the date."""


class Driven:
    """An attempt that is told one thing after the other."""

    def __init__(self) -> None:
        self.state, first = machine.begin()
        self.done: list[Instruction] = list(first)

    def tell(self, *told: Event) -> list[Instruction]:
        """Tells it; returns what follows from the last of it."""
        new: list[Instruction] = []
        for event in told:
            self.state, instructions = machine.step(self.state, event)
            new = list(instructions)
            self.done += new
        return new

    @property
    def phase(self) -> str:
        return phase_of(self.state)

    @property
    def endings(self) -> list[EndingReport]:
        return endings(self.done)


def phase_of(state: AttemptState) -> str:
    return type(state.phase).__name__


def endings(instructions: list[Instruction]) -> list[EndingReport]:
    return [
        one.body
        for one in instructions
        if isinstance(one, Report) and isinstance(one.body, EndingReport)
    ]


def failure(
    message: str = "a value was divided by zero", region: str | None = None
) -> FailureReport:
    return FailureReport(kind="data", is_restartable=True, message=message, stack="", region=region)


def a_barrier(
    checkpoint: int = 1, seconds: float = 60, *, awaits_new_batch: bool = False
) -> events.BarrierArrived:
    barrier = Barrier(checkpoint=checkpoint, expires_at=NEVER, awaits_new_batch=awaits_new_batch)
    return events.BarrierArrived(barrier, timedelta(seconds=seconds))


def a_stop(
    checkpoint: int = 5, seconds: float = 60, *, drain: bool = False, keep_runner: bool = False
) -> events.StopAsked:
    stop = Stop(
        checkpoint=checkpoint,
        expires_at=NEVER,
        savepoint=SavepointTarget(id=SAVEPOINT, directory="file:/savepoints/one"),
        drain=drain,
        keep_runner=keep_runner,
    )
    return events.StopAsked(stop, timedelta(seconds=seconds))


def a_cancel(seconds: float = 30) -> events.CancelAsked:
    return events.CancelAsked(timedelta(seconds=seconds), "somebody asked for it")


def acks(checkpoint: int, batch: int | None = 7) -> BarrierAcks:
    return BarrierAcks(
        job=UUID(int=1),
        attempt=1,
        checkpoint=checkpoint,
        manifest=f"checkpoints/{checkpoint}/manifest.json",
        batches=dict.fromkeys(REGIONS, batch),
        bytes=1,
        new_bytes=1,
        acks=[],
    )


def taken(checkpoint: int, batch: int | None = 7) -> events.SnapshotTaken:
    return events.SnapshotTaken(acks(checkpoint, batch))


def seen(
    checkpoint: int, begun: int | None, committed: int | None, *, is_alive: bool = True
) -> events.BatchesSeen:
    """Every region is as far."""
    return batches_seen(
        checkpoint,
        {region: BatchesOfRegion(begun, committed, is_alive) for region in REGIONS},
    )


def batches_seen(
    checkpoint: int, regions: Mapping[RegionId, BatchesOfRegion]
) -> events.BatchesSeen:
    return events.BatchesSeen(checkpoint, regions)


PREPARED = events.Prepared(REGIONS, has_boundaries=True)
HOLDS_OUTPUT = events.Prepared(REGIONS, has_boundaries=True, holds_output=True)
STARTED = events.AllQueriesStarted()
ENDED = tuple(events.QueryEnded(region) for region in REGIONS)
FINISHED = tuple(events.QueryFinished(region) for region in REGIONS)
FAILED = events.QueryFailed(OUT, failure(region=OUT))
STOPPED = events.RegionsStopped()
REPLACED = events.Replaced("attempt 2 has taken over")
DISMISSED = events.Dismissed("nobody knows this runner")


def preparing() -> Driven:
    return Driven()


def starting() -> Driven:
    driven = Driven()
    driven.tell(PREPARED)
    return driven


def running() -> Driven:
    driven = starting()
    driven.tell(STARTED)
    return driven


def stopping(**fields: bool) -> Driven:
    """Every query is in its last batch."""
    driven = running()
    driven.tell(a_stop(**fields))
    return driven


def saving(**fields: bool) -> Driven:
    """The savepoint's snapshot is being taken."""
    driven = stopping(**fields)
    driven.tell(*ENDED, STOPPED)
    return driven


def cancelling() -> Driven:
    driven = running()
    driven.tell(a_cancel())
    return driven


def ending() -> Driven:
    """The attempt has failed, and its queries are being stopped."""
    driven = running()
    driven.tell(FAILED)
    return driven


def answers_to(instruction: Instruction) -> list[Event]:
    """What is heard of an instruction when all goes well."""
    match instruction:
        case Prepare():
            return [PREPARED]
        case StartQueries():
            return [STARTED]
        case AskRegionsToStop():
            return list(ENDED)
        case DrainRegions():
            return [events.RegionsDrained()]
        case StopRegionsAtOnce():
            return [STOPPED]
        case WatchBatches(checkpoint=checkpoint):
            return [seen(checkpoint, 3, 3)]
        case TakeSnapshot(barrier=barrier):
            return [taken(barrier.checkpoint)]
        case SendAcks(acks=sent):
            return [events.AcksAnswered(sent.checkpoint, AckOutcome.COMPLETED)]
        case SendDecline(checkpoint=checkpoint):
            return [events.DeclineAnswered(checkpoint)]
        case ShowOutput(checkpoint=checkpoint):
            return [events.OutputShown(checkpoint)]
        case ShowAllOutput():
            return [events.AllOutputShown()]
        case _:
            return []
