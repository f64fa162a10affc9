"""Carries out the attempt machine's instructions for Spark, in one thread and in order.

It prepares, starts, polls and ends the regions, and reports each result as an event. An instruction
that only waits (for the next region to prepare, a query that is to end, a batch that drains) is
abandoned when the next instruction arrives.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import assert_never

from jobmanager.core.ids import RegionId
from jobmanager.core.progress import RegionProgress
from jobmanager.protocol.messages import FailureReport
from taskrunner import logs
from taskrunner.core.attempt import events
from taskrunner.core.attempt.events import Event
from taskrunner.core.attempt.instructions import (
    AskRegionsToStop,
    DrainRegions,
    End,
    Prepare,
    ShowAllOutput,
    StartQueries,
    StopRegionsAtOnce,
)
from taskrunner.preparation import Preparation
from taskrunner.reports import failure_of, failure_of_region, region_failure, restored_regions
from taskrunner.snapshots.fence import Superseded
from taskrunner.spark.run.job import RegionRun, SparkJob
from taskrunner.spark.run.region_query import QueryPhase, RegionQuery
from taskrunner.stopping import await_ends, drain, stop_at_once

_POLL_SECONDS = 0.1
_SHARED_POLL_SECONDS = 0.5
"""Where many jobs share the processors: each poll asks the JVM."""
log = logs.get("attempt")

SparkInstruction = (
    Prepare
    | StartQueries
    | AskRegionsToStop
    | DrainRegions
    | StopRegionsAtOnce
    | ShowAllOutput
    | End
)


class DriveAbandoned(Exception):
    """Another instruction has arrived, so the one under way is abandoned."""


class RegionDriver:
    """Drives the regions of one attempt. `run` and everything it calls belong to one thread."""

    def __init__(
        self,
        preparation: Preparation,
        tell: Callable[[Event], None],
        *,
        is_shared: bool = False,
    ) -> None:
        """`is_shared`: other jobs run in the same Spark."""
        self._preparation = preparation
        self._tell = tell
        self._to_do: SimpleQueue[SparkInstruction] = SimpleQueue()
        self._spark_job: SparkJob | None = None
        self._has_started = False
        self._is_polling = False
        self._poll_seconds = _SHARED_POLL_SECONDS if is_shared else _POLL_SECONDS
        self._finished: set[RegionId] = set()
        """Regions whose end has been reported."""
        self._last_progress: list[RegionProgress] = []

    def do(self, instruction: SparkInstruction) -> None:
        """Any thread may ask for something to be done."""
        self._to_do.put(instruction)

    def run(self) -> None:
        """Carries out instructions until `End`."""
        while not isinstance(instruction := self._next(), End):
            try:
                self._carry_out(instruction)
            except DriveAbandoned:
                log.info("abandoned", what=type(instruction).__name__)
            except Superseded as error:
                self._is_polling = False
                self._tell(events.Replaced(str(error)))
            except Exception as error:
                self._is_polling = False
                self._tell(self._failed(instruction, failure_of(error)))

    def progress(self) -> list[RegionProgress]:
        """The latest progress of each region whose progress can be read now. For any thread."""
        if self._has_started:
            try:
                self._last_progress = [one.progress() for one in self._regions]
            except Exception as error:  # Spark has deleted a log file meanwhile, or is ending
                log.debug("progress_not_read", reason=f"{type(error).__name__}: {error}")
        return self._last_progress

    def _next(self) -> SparkInstruction | None:
        """The next instruction; None: there is none, so poll the regions."""
        try:
            return self._to_do.get(timeout=self._poll_seconds if self._is_polling else None)
        except Empty:
            return None

    def _carry_out(self, instruction: SparkInstruction | None) -> None:
        match instruction:
            case None:
                self._poll()
            case Prepare():
                self._prepare()
            case StartQueries():
                self._start()
            case AskRegionsToStop():
                self._ask_to_stop()
            case DrainRegions():
                self._drain()
            case StopRegionsAtOnce():
                self._is_polling = False
                stop_at_once(self._regions)
                self.progress()
                self._tell(events.RegionsStopped())
            case ShowAllOutput():
                self._job.show_everything()
                self._tell(events.AllOutputShown())
            case End():
                pass
            case _:
                assert_never(instruction)

    @property
    def _job(self) -> SparkJob:
        assert self._spark_job is not None
        return self._spark_job

    @property
    def _regions(self) -> list[RegionRun]:
        return self._spark_job.regions if self._spark_job else []

    def _prepare(self) -> None:
        spark_job = self._preparation.prepare(self._check)
        regions = tuple(one.id for one in spark_job.regions)
        self._spark_job = spark_job
        self._tell(
            events.Prepared(
                regions,
                spark_job.has_boundaries,
                tuple(spark_job.repartitioned),
                spark_job.unfenced,
                holds_output=any(spark_job.held_sinks.values()),
            )
        )

    def _start(self) -> None:
        try:
            for region in self._regions:
                region.start()
        except BaseException:
            stop_at_once(self._regions)
            raise
        self._has_started = self._is_polling = True
        self._tell(events.AllQueriesStarted(tuple(restored_regions(self._job))))

    def _poll(self) -> None:
        phases = {region.id: region.poll() for region in self._regions}
        if QueryPhase.FAILED in phases.values():
            raise region_failure(self._job)
        for region, phase in phases.items():
            if phase is QueryPhase.FINISHED and region not in self._finished:
                self._finished.add(region)
                self._tell(events.QueryFinished(region))

    def _ask_to_stop(self) -> None:
        self._is_polling = False
        able = [region for region in self._regions if self._can_stop(region)]
        for region in await_ends(able, self._is_interrupted):
            if region.phase is QueryPhase.FAILED:
                self._tell_failure(region)
            else:
                self._tell(events.QueryEnded(region.id))

    def _can_stop(self, region: RegionRun) -> bool:
        if region.ask_to_stop():
            return True
        self._tell(events.QueryCannotStop(region.id))
        return False

    def _drain(self) -> None:
        regions = [one for one in self._regions if isinstance(one, RegionQuery)]
        if drain(regions, self._preparation.mark_drained, self._is_interrupted):
            self._tell(events.RegionsDrained())
        for region in regions:
            if region.phase is QueryPhase.FAILED:
                self._tell_failure(region)

    def _is_interrupted(self) -> bool:
        return not self._to_do.empty()

    def _check(self) -> None:
        if self._is_interrupted():
            raise DriveAbandoned

    def _tell_failure(self, region: RegionRun) -> None:
        error = failure_of_region(region)
        if isinstance(error, Superseded):
            self._tell(events.Replaced(str(error)))
        else:
            self._tell(events.QueryFailed(region.id, failure_of(error)))

    def _failed(self, instruction: SparkInstruction | None, failure: FailureReport) -> Event:
        match instruction:
            case Prepare():
                return events.PreparationFailed(failure)
            case StartQueries():
                return events.StartFailed(failure)
            case ShowAllOutput():
                return events.AllOutputNotShown(failure)
            case _:
                region = RegionId(failure.region) if failure.region else self._regions[0].id
                return events.QueryFailed(region, failure)
