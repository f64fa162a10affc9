"""The loop and the thread that drives Spark, together, with regions that need no Spark."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event as Flag
from typing import Any, cast

from jobmanager.core.ids import RegionId
from jobmanager.core.progress import RegionProgress
from jobmanager.protocol.messages import (
    AttemptCancelledReport,
    AttemptFailedReport,
    AttemptFinishedReport,
    EndingReport,
)
from taskrunner.attempt_loop import AttemptLoop
from taskrunner.core.attempt.instructions import Instruction, Report
from taskrunner.preparation import Preparation
from taskrunner.region_driver import RegionDriver, SparkInstruction
from taskrunner.snapshots.fence import Superseded
from taskrunner.spark.run.job import SparkJob
from taskrunner.spark.run.region_query import QueryPhase
from tests.unit.taskrunner.attempts import REPLACED, a_cancel


@dataclass
class ARegion:
    """A region whose batch ends when it is asked to stop, unless it is `stuck`."""

    id: RegionId
    phase: QueryPhase = QueryPhase.RUNNING
    error: BaseException | None = None
    stuck: bool = False
    when_started: Callable[[], None] = lambda: None
    output_rows: int = 0
    is_asked: bool = False
    is_stopped: bool = False

    def start(self) -> None:
        self.when_started()

    def poll(self) -> QueryPhase:
        return self.phase

    def ask_to_stop(self) -> bool:
        self.is_asked = True
        return True

    def has_ended(self, within: timedelta) -> bool:
        return self.is_asked and not self.stuck

    def stop(self) -> None:
        self.is_stopped = True

    def progress(self) -> RegionProgress:
        return RegionProgress(region=self.id, batch=None, is_active=not self.is_stopped)


@dataclass
class AJob:
    """What the driver knows of a job; `prepare` goes step by step until `is_ready`."""

    regions: list[ARegion]
    is_ready: Flag = field(default_factory=Flag)
    has_boundaries: bool = True
    repartitioned: tuple[()] = ()
    unfenced: tuple[()] = ()
    held_sinks: dict[RegionId, list[Any]] = field(default_factory=dict)
    restored: dict[RegionId, Any] = field(default_factory=dict)
    is_shown: bool = False
    fence: Superseded | None = None

    def prepare(self, check: Callable[[], None]) -> SparkJob:
        while not self.is_ready.wait(0.01):
            check()
        if self.fence is not None:
            raise self.fence
        return cast("SparkJob", self)

    def show_everything(self) -> None:
        self.is_shown = True


class Lived:
    """A whole attempt in two threads: the test's, which drives, and the loop's."""

    def __init__(self, job: AJob) -> None:
        self.loop = AttemptLoop(self._carry_out, self._give_up)
        self.driver = RegionDriver(cast(Preparation, job), self.loop.tell)
        self.reports: list[str] = []
        self.endings: list[EndingReport] = []

    def run(self) -> None:
        self.loop.start()
        self.driver.run()
        self.loop.join(10)
        assert not self.loop.is_alive()

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Report(body=body):
                self.reports.append(body.event)
                if isinstance(
                    body, AttemptCancelledReport | AttemptFailedReport | AttemptFinishedReport
                ):
                    self.endings.append(body)
            case _:
                self.driver.do(cast(SparkInstruction, instruction))

    def _give_up(self, error: Exception) -> None:
        raise error


def a_job(*regions: ARegion, is_ready: bool = True) -> AJob:
    job = AJob(list(regions))
    if is_ready:
        job.is_ready.set()
    return job


def out(**fields: Any) -> ARegion:
    return ARegion(RegionId("out"), **fields)


def raw(**fields: Any) -> ARegion:
    return ARegion(RegionId("raw"), **fields)


def test_a_job_that_finishes_shows_its_output_and_says_so() -> None:
    job = a_job(out(phase=QueryPhase.FINISHED), raw(phase=QueryPhase.FINISHED))
    lived: Lived = Lived(job)

    lived.run()

    assert lived.reports == ["prepared", "running", "finished"]
    assert job.is_shown
    assert all(region.is_stopped for region in job.regions)


def test_a_region_that_fails_fails_the_attempt_and_stops_the_others() -> None:
    job = a_job(out(), raw(phase=QueryPhase.FAILED, error=ValueError("row 17 has no price")))
    lived: Lived = Lived(job)

    lived.run()

    (ending,) = lived.endings
    assert isinstance(ending, AttemptFailedReport)
    assert (ending.failure.region, ending.failure.message) == (
        "raw",
        "ValueError: row 17 has no price",
    )
    assert all(region.is_stopped for region in job.regions)


def test_a_region_whose_output_the_fence_refused_ends_the_attempt_without_a_word() -> None:
    lived = Lived(a_job(out(phase=QueryPhase.FAILED, error=Superseded("by attempt 2"))))

    lived.run()

    assert lived.reports == ["prepared", "running"]


def test_a_cancel_waits_for_batches_and_cuts_off_what_outlasts_the_grace() -> None:
    lived: Lived = Lived(
        a_job(out(when_started=lambda: lived.loop.tell(a_cancel(0.3))), raw(stuck=True))
    )
    begun = time.monotonic()

    lived.run()

    detail = "out ended after its batch; raw was stopped in the middle of a batch"
    assert lived.endings == [AttemptCancelledReport(detail=detail)]
    assert time.monotonic() - begun >= 0.3


def test_a_cancel_interrupts_a_preparation_between_two_steps() -> None:
    lived = Lived(a_job(out(), is_ready=False))
    lived.loop.tell(a_cancel())

    lived.run()

    assert lived.endings == [AttemptCancelledReport(detail="no query had started")]


def test_an_attempt_that_is_replaced_stops_everything_and_says_nothing() -> None:
    job = a_job(out(stuck=True, when_started=lambda: lived.loop.tell(REPLACED)))
    lived: Lived = Lived(job)

    lived.run()

    assert lived.endings == []
    assert job.regions[0].is_stopped


def test_an_attempt_that_the_fence_refuses_says_nothing() -> None:
    job = a_job(out())
    job.fence = Superseded("attempt 1 was superseded by attempt 2")
    lived: Lived = Lived(job)

    lived.run()

    assert lived.reports == []
