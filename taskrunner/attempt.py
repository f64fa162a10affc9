"""One attempt of a job, from the directive `run` to its end: a state machine and three threads.

    directives, signals ─┐                          ┌─▶ the caller's thread drives Spark
    Spark's queries ─────┼─ events ─▶ AttemptLoop ──┼─▶ BarrierThread: snapshots, acks, declines
    answers to acks ─────┘            (decides)     └─▶ reports

The phases of an attempt, and the precedence of events, are in `taskrunner.core.attempt.machine`.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import assert_never

from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.progress import RegionProgress
from jobmanager.protocol.messages import (
    AttemptFailedReport,
    AttemptPrepared,
    AttemptRunning,
    Barrier,
    CheckpointAborted,
    CheckpointCompleted,
    Run,
    Stop,
)
from taskrunner.attempt_loop import AttemptLoop
from taskrunner.barriers import BarrierThread
from taskrunner.control.client import JobManagerClient
from taskrunner.core.attempt import events
from taskrunner.core.attempt.events import Order
from taskrunner.core.attempt.instructions import (
    AskRegionsToStop,
    DrainRegions,
    End,
    EndingReport,
    Instruction,
    Prepare,
    Report,
    SendAcks,
    SendDecline,
    ShowAllOutput,
    ShowOutput,
    StartQueries,
    StopRegionsAtOnce,
    StopWatching,
    TakeSnapshot,
    WatchBatches,
)
from taskrunner.preparation import Preparation
from taskrunner.region_driver import RegionDriver
from taskrunner.reports import failure_of
from taskrunner.snapshots.layout import JobLayout
from taskrunner.spark.session.session import WarmSession

ReportProgress = Callable[[AttemptPrepared | AttemptRunning], None]


class AttemptRun:
    """Runs one attempt. One thread calls `run`; any thread may call the rest. The Spark session
    stays open afterwards.
    """

    def __init__(
        self,
        job: JobId,
        number: AttemptNumber,
        run: Run,
        client: JobManagerClient,
        session: WarmSession,
    ) -> None:
        self.job = job
        self.number = number
        self.keeps_runner = False
        """The attempt was stopped, and the job's next attempt will run in this process."""
        self._loop = AttemptLoop(self._carry_out, self._give_up)
        self._barriers = BarrierThread(job, number, client, self._loop.tell)
        self._preparation = Preparation(job, number, run, session, self._barriers)
        self._driver = RegionDriver(self._preparation, self._loop.tell)
        self._report: ReportProgress = lambda body: None
        self._ending: EndingReport | None = None

    @property
    def layout(self) -> JobLayout:
        return self._preparation.layout

    def run(self, report: ReportProgress) -> EndingReport | None:
        """Runs the job to its end. None: the attempt was replaced or dismissed: no report."""
        self._report = report
        self._barriers.start()
        self._loop.start()
        try:
            self._driver.run()
        finally:
            self._barriers.end()
        self._loop.join()
        return self._ending

    def order(self, order: Order) -> None:
        """Tells the attempt to end."""
        self._loop.tell(order)

    def tell(self, body: Barrier | Stop | CheckpointCompleted | CheckpointAborted) -> None:
        """Passes a message of the JobManager about a checkpoint to the attempt."""
        match body:
            case Barrier():
                time_left = body.expires_at - datetime.now(UTC)
                self._loop.tell(events.BarrierArrived(body, time_left))
            case Stop():
                time_left = body.expires_at - datetime.now(UTC)
                self._loop.tell(events.StopAsked(body, time_left))
            case CheckpointCompleted() | CheckpointAborted():
                self._loop.tell(body)

    def progress(self) -> list[RegionProgress]:
        """The latest progress of each region whose progress can be read at the moment."""
        return self._driver.progress()

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case (
                Prepare()
                | StartQueries()
                | AskRegionsToStop()
                | DrainRegions()
                | StopRegionsAtOnce()
                | ShowAllOutput()
            ):
                self._driver.do(instruction)
            case (
                WatchBatches()
                | StopWatching()
                | TakeSnapshot()
                | SendAcks()
                | SendDecline()
                | ShowOutput()
            ):
                self._barriers.do(instruction)
            case Report(body=body):
                if isinstance(body, AttemptPrepared | AttemptRunning):
                    self._report(body)
                else:
                    self._ending = body
            case End(keeps_runner=keeps_runner):
                self.keeps_runner = keeps_runner
                self._driver.do(instruction)
            case _:
                assert_never(instruction)

    def _give_up(self, error: Exception) -> None:
        self._ending = AttemptFailedReport(failure=failure_of(error))
        self._driver.do(StopRegionsAtOnce())
        self._driver.do(End())
