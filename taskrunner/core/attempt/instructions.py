"""The instructions for an attempt's threads. Each instruction is carried out once.

    for the thread that drives Spark      Prepare, StartQueries, AskRegionsToStop, DrainRegions,
                                          StopRegionsAtOnce, ShowAllOutput, End
    for the thread that answers barriers  WatchBatches, StopWatching, TakeSnapshot, SendAcks,
                                          SendDecline, ShowOutput; BreakOffSnapshot, at once
    for the reporter                      Report
    for no thread that could hang         KillProcess

Instructions for one thread are carried out in the order in which they were given. An instruction
for Spark's thread interrupts one that only waits: for the next region to prepare, a query that is
to end, a batch that drains. The events in the docstrings below are the possible answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from jobmanager.protocol.messages import (
    Barrier,
    BarrierAcks,
    DeclineReason,
    EndingReport,
    ProgressReport,
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
    """Let every region emit its open windows, after all queries have ended: `RegionsDrained` or
    `QueryFailed`."""


@dataclass(frozen=True, slots=True)
class StopRegionsAtOnce:
    """Stop all queries that still run, in the middle of a batch if necessary: `RegionsStopped`."""


@dataclass(frozen=True, slots=True)
class ShowAllOutput:
    """Publish all held output after the job has finished: `AllOutputShown` or
    `AllOutputNotShown`."""


@dataclass(frozen=True, slots=True)
class WatchBatches:
    """Report how far the queries are, until `StopWatching`: `BatchesSeen`."""

    checkpoint: int
    awaits_new_batch: bool = False
    """Whether it has to be known which regions have committed a batch in this attempt."""


@dataclass(frozen=True, slots=True)
class StopWatching:
    checkpoint: int


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Of the last committed batch of each region: `SnapshotTaken` or `SnapshotFailed`."""

    barrier: Barrier | Stop


@dataclass(frozen=True, slots=True)
class BreakOffSnapshot:
    """Upload no further file for this snapshot, which is under way or waits for its turn. It goes
    before whatever the thread was told; `SnapshotFailed` is the answer to `TakeSnapshot` then,
    unless the snapshot was just done."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class SendAcks:
    """`AcksAnswered` or `AcksNotDelivered`."""

    acks: BarrierAcks
    deadline: float
    """When to stop trying, by the clock of `TimePassed`."""


@dataclass(frozen=True, slots=True)
class SendDecline:
    """`DeclineAnswered`, in any case."""

    checkpoint: int
    reason: DeclineReason
    detail: str
    region: str | None = None


@dataclass(frozen=True, slots=True)
class ShowOutput:
    """Publish the output held for this checkpoint: `OutputShown` or `OutputNotShown`."""

    checkpoint: int
    batches: Mapping[str, int | None]
    """Region to the last batch that may become visible; None: none."""


@dataclass(frozen=True, slots=True)
class Report:
    """Report the status of the attempt to the JobManager. The report of an ending is the last."""

    body: ProgressReport | EndingReport


@dataclass(frozen=True, slots=True)
class End:
    """End the threads and release all resources: no event is expected any more."""

    keeps_runner: bool = False
    """The attempt was stopped, and the job's next attempt will run in this process."""


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
    | BreakOffSnapshot
    | SendAcks
    | SendDecline
    | ShowOutput
    | Report
    | End
    | KillProcess
)
