"""One attempt of a job, from the directive to its end.

restore ─▶ compile ─▶ start ─▶ running ─┬─ every region finished ──▶ AttemptFinished
                                        ├─ asked to cancel ────────▶ AttemptCancelled
                                        ├─ a region failed ────────▶ AttemptFailed
                                        └─ replaced, dismissed ────▶ (says nothing)
"""

import time
from collections.abc import Callable
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Lock

from jobmanager.core import graph_document
from jobmanager.core.graph import Mode
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId
from jobmanager.core.storage_uri import local_path
from jobmanager.protocol.messages import (
    AttemptCancelled,
    AttemptFailed,
    AttemptFinished,
    AttemptRunning,
    Barrier,
    CheckpointAborted,
    CheckpointCompleted,
    Failure,
    RegionProgress,
    RestoredRegion,
    Run,
)
from taskrunner import logs
from taskrunner.barriers import BarrierThread
from taskrunner.control.client import JobManagerClient
from taskrunner.core import failures, restore
from taskrunner.core.orders import CancelAsked, Dismissed, Order, Replaced
from taskrunner.core.restore import FromAttempt, FromCheckpoint, FromScratch, Restore
from taskrunner.snapshots.clone import read_manifest
from taskrunner.snapshots.fence import Fence, Superseded
from taskrunner.snapshots.layout import JobLayout, layout_of
from taskrunner.snapshots.snapshot import Snapshots, Subject
from taskrunner.spark.causes import causes_of, stack_of
from taskrunner.spark.job import SPARK_VERSION, Places, SparkJob, open_session
from taskrunner.spark.region_query import Phase, RegionQuery
from taskrunner.spark.session import Session

_TICK_SECONDS = 0.1
log = logs.get("attempt")

Ending = AttemptFinished | AttemptCancelled | AttemptFailed


class RegionFailed(Exception):
    """A region's query ended with an error, which is the cause."""

    def __init__(self, region: RegionId) -> None:
        self.region = region
        super().__init__(f"region {region} failed")


class Attempt:
    """Runs one attempt. `run` belongs to one thread; `tell` and `progress` to any."""

    def __init__(
        self,
        job: JobId,
        number: AttemptNumber,
        run: Run,
        client: JobManagerClient,
        orders: "SimpleQueue[Order]",
    ) -> None:
        self.job = job
        self.number = number
        self._run = run
        self._client = client
        self._orders = orders
        self._spark_job: SparkJob | None = None
        self._barriers: BarrierThread | None = None
        self._early: list[Barrier | CheckpointCompleted | CheckpointAborted] = []
        self._early_lock = Lock()
        self._last_progress: list[RegionProgress] = []
        self.spark: Session | None = None
        """To be closed by whoever ran the attempt, after it was reported."""

    @property
    def layout(self) -> JobLayout:
        return layout_of(self._run.storage, self.job)

    def run(self, report_running: Callable[[AttemptRunning], None]) -> Ending | None:
        """Runs the job to its end. None: the attempt was replaced, and says nothing."""
        try:
            spark_job = self._start()
            report_running(AttemptRunning(restored=_restored(spark_job)))
            return self._supervise(spark_job)
        except Superseded as error:
            log.warning("attempt_superseded", reason=str(error))
            return None
        except Exception as error:
            return AttemptFailed(failure=_failure(error))
        finally:
            self._end()

    def tell(self, body: Barrier | CheckpointCompleted | CheckpointAborted) -> None:
        """Passes on what the JobManager says about a checkpoint."""
        with self._early_lock:
            if self._barriers is None:
                self._early.append(body)
            else:
                self._barriers.tell(body)

    def progress(self) -> list[RegionProgress]:
        """The latest progress of each region that can be read just now."""
        if self._spark_job is not None:
            try:
                self._last_progress = [one.progress() for one in self._spark_job.regions]
            except Exception as error:  # a log file was tidied away meanwhile, Spark is ending…
                log.debug("progress_not_read", reason=f"{type(error).__name__}: {error}")
        return self._last_progress

    def _start(self) -> SparkJob:
        graph = graph_document.parse(self._run.graph)
        subject = Subject(self.job, self.number, graph, self._run.parallelism, SPARK_VERSION)
        fence = Fence(self.layout, self.number)
        fence.raise_epoch()
        checkpoint = self._run.checkpoint
        completed = (
            read_manifest(self.layout, CheckpointNumber(checkpoint.number)) if checkpoint else None
        )
        self.spark = open_session(graph, self._run.spark_master, self._run.parallelism)
        places = Places(self.layout, local_path(self._run.data_root))
        spark_job = SparkJob(self.spark, subject, places, fence, completed)
        spark_job.prepare()
        snapshots = Snapshots(subject, self.layout, fence)
        if completed is not None:
            snapshots.learn(completed)
        self._start_barriers(subject, snapshots, spark_job)
        for region in spark_job.regions:
            region.start()
        self._spark_job = spark_job
        return spark_job

    def _start_barriers(self, subject: Subject, snapshots: Snapshots, spark_job: SparkJob) -> None:
        if subject.graph.mode is Mode.BATCH:
            return  # a batch job has no boundary to snapshot at
        queries = {one.id: one for one in spark_job.regions if isinstance(one, RegionQuery)}
        running = (Phase.RUNNING, Phase.DRAINING)
        barriers = BarrierThread(
            subject,
            self.layout,
            snapshots,
            {region: query.log for region, query in queries.items()},
            lambda region: queries[region].phase in running,
            spark_job.held_sinks,
            self._client,
            self._orders.put,
        )
        barriers.start()
        with self._early_lock:
            self._barriers = barriers
            for body in self._early:
                barriers.tell(body)

    def _supervise(self, spark_job: SparkJob) -> Ending | None:
        while True:
            match self._next_order():
                case CancelAsked() as asked:
                    return _cancel(spark_job, asked)
                case Replaced(why=why):
                    raise Superseded(why)
                case Dismissed(why=why):
                    log.warning("dismissed", reason=why)
                    return None
                case None:
                    pass
            phases = {region.poll() for region in spark_job.regions}
            if Phase.FAILED in phases:
                raise _region_failure(spark_job)
            if phases == {Phase.FINISHED}:
                self._end_barriers()
                spark_job.show_everything()
                return AttemptFinished()

    def _next_order(self) -> Order | None:
        try:
            return self._orders.get(timeout=_TICK_SECONDS)
        except Empty:
            return None

    def _end_barriers(self) -> None:
        if self._barriers is not None:
            self._barriers.end()

    def _end(self) -> None:
        """Stops what still runs, so that nothing is written after the report."""
        for region in self._spark_job.regions if self._spark_job else []:
            try:
                region.stop()
            except Exception as error:
                log.warning("region_not_stopped", region=region.id, reason=str(error))
        self.progress()
        self._end_barriers()


def _cancel(spark_job: SparkJob, asked: CancelAsked) -> AttemptCancelled:
    log.info("cancelling", why=asked.why, grace_s=asked.grace.total_seconds())
    deadline = time.monotonic() + asked.grace.total_seconds()
    details = []
    can_wait = {region.id: region.ask_to_stop() for region in spark_job.regions}
    for region in spark_job.regions:
        left = timedelta(seconds=max(0.001, deadline - time.monotonic()))
        if can_wait[region.id] and region.await_stop(left):
            details.append(f"{region.id} ended after its batch")
        else:
            region.stop()
            details.append(f"{region.id} was stopped in the middle of a batch")
    return AttemptCancelled(detail="; ".join(details))


def _region_failure(spark_job: SparkJob) -> BaseException:
    failed = next(one for one in spark_job.regions if one.phase is Phase.FAILED)
    if isinstance(failed.error, Superseded):
        return failed.error
    error = RegionFailed(failed.id)
    error.__cause__ = failed.error
    return error


def _failure(error: Exception) -> Failure:
    region = error.region if isinstance(error, RegionFailed) else None
    causes = causes_of(error.__cause__ if region and error.__cause__ else error)
    found = failures.classify(causes, stack_of(error), region)
    log.error("attempt_failed", kind=found.kind, message=found.message, region=region)
    return Failure.model_validate(
        {
            "kind": found.kind,
            "is_restartable": found.is_restartable,
            "message": found.message,
            "stack": found.stack,
            "region": found.region,
        }
    )


def _restored(spark_job: SparkJob) -> list[RestoredRegion]:
    return [_restored_region(region, one) for region, one in spark_job.restored.items()]


def _restored_region(region: RegionId, choice: Restore) -> RestoredRegion:
    batch = restore.batch_of(choice)
    match choice:
        case FromScratch(why=why):
            return RestoredRegion(region=region, origin="scratch", batch=None, source=None, why=why)
        case FromAttempt(attempt=source, why=why):
            return RestoredRegion(
                region=region, origin="attempt", batch=batch, source=source, why=why
            )
        case FromCheckpoint(checkpoint=number, why=why):
            return RestoredRegion(
                region=region, origin="checkpoint", batch=batch, source=number, why=why
            )
