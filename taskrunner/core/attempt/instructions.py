"""What an attempt's threads are told to do. Each instruction is carried out once.

    for the thread that drives Spark      Prepare, StartQueries, AskRegionsToStop, DrainRegions,
                                          StopRegionsAtOnce, ShowAllOutput, End
    for the thread that answers barriers  WatchBatches, StopWatching, TakeSnapshot, SendAcks,
                                          SendDecline, ShowOutput
    for whoever reports                   Report
    for nobody who could hang             KillProcess

Instructions for one thread are carried out in the order in which they were given. An instruction
for Spark's thread interrupts what that thread only waits for: the next region to prepare, a query
that is to end, a batch that drains.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from jobmanager.protocol.messages import (
    AttemptPrepared,
    AttemptRunning,
    Barrier,
    BarrierAcks,
    DeclineReason,
    EndingReport,
    Stop,
)


@dataclass(frozen=True, slots=True)
class Prepare:
    """Restore and compile every region: `Prepared` or `PreparationFailed`."""


@dataclass(frozen=True, slots=True)
class StartQueries:
    """`QueriesStarted` or `StartFailed`; from then on `QueryFinished` and `QueryFailed`."""


@dataclass(frozen=True, slots=True)
class AskRegionsToStop:
    """Let the batch under way be the last: a `QueryEnded`, `QueryFailed` or `QueryCannotStop`
    for each region."""


@dataclass(frozen=True, slots=True)
class DrainRegions:
    """Let every region, all of them ended, emit its open windows: `RegionsDrained` or
    `QueryFailed`."""


@dataclass(frozen=True, slots=True)
class StopRegionsAtOnce:
    """Stop whatever still runs, in the middle of a batch if need be: `RegionsStopped`."""


@dataclass(frozen=True, slots=True)
class ShowAllOutput:
    """Show what is still held back, the job having finished: `AllOutputShown` or
    `AllOutputNotShown`."""


@dataclass(frozen=True, slots=True)
class WatchBatches:
    """Say how far the queries are until told otherwise: `BatchesSeen`."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class StopWatching:
    checkpoint: int


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Of the last committed batch of each region: `SnapshotTaken` or `SnapshotFailed`."""

    barrier: Barrier | Stop


@dataclass(frozen=True, slots=True)
class SendAcks:
    """`AcksAnswered` or `AcksNotDelivered`."""

    acks: BarrierAcks
    deadline: float
    """When trying again is no use any more, by the clock of `TimePassed`."""


@dataclass(frozen=True, slots=True)
class SendDecline:
    """`DeclineAnswered`, in any case."""

    checkpoint: int
    reason: DeclineReason
    detail: str
    region: str | None = None


@dataclass(frozen=True, slots=True)
class ShowOutput:
    """Show what was held back for this checkpoint: `OutputShown` or `OutputNotShown`."""

    checkpoint: int
    batches: Mapping[str, int | None]
    """Region to the last batch that may be seen; None: none."""


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the JobManager how the attempt is. An ending is the last that it hears of it."""

    body: AttemptPrepared | AttemptRunning | EndingReport


@dataclass(frozen=True, slots=True)
class End:
    """Let go of everything: no event is expected any more."""

    keeps_runner: bool = False
    """The attempt was stopped, and another is to come to this runner."""


@dataclass(frozen=True, slots=True)
class KillProcess:
    """End the process and all that it started, at once: the queries cannot be stopped, and may
    write where another attempt writes by now. Nothing follows."""

    why: str


Instruction = (
    Prepare
    | StartQueries
    | AskRegionsToStop
    | DrainRegions
    | StopRegionsAtOnce
    | ShowAllOutput
    | WatchBatches
    | StopWatching
    | TakeSnapshot
    | SendAcks
    | SendDecline
    | ShowOutput
    | Report
    | End
    | KillProcess
)
