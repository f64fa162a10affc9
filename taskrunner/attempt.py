"""One attempt of a job, from the directive `run` to its end: a state machine and its threads.

    directives, signals ─┐                          ┌─▶ the caller's thread drives Spark
    Spark's queries ─────┼─ events ─▶ AttemptLoop ──┼─▶ BarrierThread: snapshots, acks, declines
    answers to acks ─────┘            (decides)     ├─▶ OutputThread: shows held output
                                                    └─▶ reports

The phases of an attempt, and the precedence of events, are in `taskrunner.core.attempt.machine`.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import assert_never

from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.life.replacement import STOP_WITHIN
from jobmanager.core.progress import RegionProgress
from jobmanager.protocol.messages import (
    AttemptFailedReport,
    Barrier,
    CheckpointAborted,
    CheckpointCompleted,
    EndingReport,
    ProgressReport,
    Run,
    Stop,
)
from taskrunner.attempt_loop import AttemptLoop
from taskrunner.barriers import BarrierThread
from taskrunner.control.client import JobManagerClient
from taskrunner.core.attempt import events, machine
from taskrunner.core.attempt.events import Order
from taskrunner.core.attempt.instructions import (
    AskRegionsToStop,
    BreakOffSnapshot,
    DrainRegions,
    End,
    Instruction,
    KillProcess,
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
from taskrunner.core.attempt.phases import Preparing, Starting
from taskrunner.core.fence_time import FenceTime
from taskrunner.last_resort import end_process
from taskrunner.preparation import Preparation
from taskrunner.region_driver import RegionDriver
from taskrunner.reports import failure_of
from taskrunner.snapshots.layout import JobLayout
from taskrunner.spark.session.session import WarmSession

ReportProgress = Callable[[ProgressReport], None]


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
        heard_at: float,
    ) -> None:
        """`heard_at`: when the last call was sent that a JobManager has answered."""
        self.job = job
        self.number = number
        self.document = run.graph
        """The job graph, as it was submitted."""
        self.keeps_runner = False
        """The attempt was stopped, and the job's next attempt will run in this process."""
        self.keep_for: timedelta | None = None
        """How long the process waits for that, if the job is paused."""
        after = None if run.fence_after_ms is None else run.fence_after_ms / 1000
        self._loop = AttemptLoop(self._carry_out, self._give_up, FenceTime(heard_at, after))
        self._barriers = BarrierThread(job, number, client, self._loop.tell)
        self._preparation = Preparation(
            job, number, run, session, self._barriers, self._check_fence_time
        )
        self._driver = RegionDriver(self._preparation, self._loop.tell, is_shared=session.is_shared)
        self._report: ReportProgress = lambda body: None
        self._ending: EndingReport | None = None
        self._has_stopped = Event()

    @property
    def layout(self) -> JobLayout:
        return self._preparation.layout

    @property
    def is_starting(self) -> bool:
        """Whether its queries are yet to be started."""
        return isinstance(self._loop.state.phase, Preparing | Starting)

    def run(self, report: ReportProgress) -> EndingReport | None:
        """Runs the job to its end. None: the attempt was replaced or dismissed: no report."""
        self._report = report
        self._barriers.start()
        self._loop.start()
        try:
            self._driver.run()
        finally:
            self._has_stopped.set()
            # Who waits for the report of a failure does not wait for an upload.
            is_failure = self._ending is None or isinstance(self._ending, AttemptFailedReport)
            self._barriers.end(waits=not is_failure)
        self._loop.join()
        return self._ending

    def order(self, order: Order) -> None:
        """Tells the attempt to end."""
        if isinstance(order, events.CancelAsked):
            self.keep_for = order.keep_for
        self._loop.tell(order)

    def heartbeat_answered(self, sent_at: float) -> None:
        """A JobManager is there, and knows this attempt."""
        self._loop.tell(events.HeartbeatAnswered(sent_at))

    def tell(self, body: Barrier | Stop | CheckpointCompleted | CheckpointAborted) -> None:
        """Passes a message of the JobManager about a checkpoint to the attempt."""
        match body:
            case Barrier():
                self._loop.tell(events.BarrierArrived(body, _time_left(body)))
            case Stop():
                self._loop.tell(events.StopAsked(body, _time_left(body)))
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
                if machine.ends_joins(self._loop.state, instruction):
                    self._barriers.join_no_more()
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
            case BreakOffSnapshot(checkpoint=checkpoint):
                self._barriers.break_off(checkpoint)
            case Report(body=body):
                if isinstance(body, ProgressReport):
                    self._report(body)
                else:
                    self._ending = body
            case End(keeps_runner=keeps_runner):
                self.keeps_runner = keeps_runner
                self._driver.do(instruction)
                if self._loop.state.may_trespass:
                    Thread(target=self._await_stop, name="last resort", daemon=True).start()
            case KillProcess(why=why):
                end_process(why)
            case _:
                assert_never(instruction)

    def _check_fence_time(self) -> None:
        """Asked before each batch, by this thread's own clock: a process that was frozen must not
        begin one before it knows how long that was. Raises `JobManagerLost`.
        """
        self._loop.state.fence.check(time.monotonic())

    def _await_stop(self) -> None:
        """The attempt was replaced or dismissed, and its queries are being stopped."""
        if not self._has_stopped.wait(STOP_WITHIN.total_seconds()):
            sinks = ", ".join(self._loop.state.unfenced)
            end_process(f"queries go on that may write to {sinks}, and the attempt has ended")

    def _give_up(self, error: Exception) -> None:
        self._ending = AttemptFailedReport(failure=failure_of(error))
        self._driver.do(StopRegionsAtOnce())
        self._driver.do(End())


def _time_left(body: Barrier | Stop) -> timedelta:
    if body.time_left_ms is not None:
        return timedelta(milliseconds=body.time_left_ms)
    return body.expires_at - datetime.now(UTC)  # from a JobManager of an older version
