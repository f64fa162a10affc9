"""One attempt of a job, from the directive to its end.

restore ─▶ compile ─▶ start ─▶ running ─┬─ every region finished ──▶ AttemptFinished
                                        ├─ asked to cancel ────────▶ AttemptCancelled
                                        ├─ stopped, savepoint acked▶ AttemptStopped
                                        ├─ a region, a stop failed ▶ AttemptFailed
                                        └─ replaced, dismissed ────▶ (says nothing)

Whoever asks for its end while it starts is heeded before the next step.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from threading import Lock

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId
from jobmanager.core.plan.job_plan import plan_of
from jobmanager.core.progress import RegionProgress
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.protocol.messages import (
    AttemptCancelled,
    AttemptFailed,
    AttemptFinished,
    AttemptPrepared,
    AttemptRunning,
    AttemptStopped,
    Barrier,
    CheckpointAborted,
    CheckpointCompleted,
    Run,
    Stop,
)
from taskrunner import logs
from taskrunner.barriers import BarrierThread
from taskrunner.control.client import JobManagerClient
from taskrunner.core.orders import (
    CancelAsked,
    Dismissed,
    Order,
    Replaced,
    StopAsked,
    StopSettled,
)
from taskrunner.core.restore import FromScratch
from taskrunner.reports import failure_of, region_failure, restored_regions
from taskrunner.snapshots import durable
from taskrunner.snapshots.clone import Clones, Past, read_manifest
from taskrunner.snapshots.fence import Fence, Superseded
from taskrunner.snapshots.layout import JobLayout, layout_of
from taskrunner.snapshots.restore_source import open_restore_source, read_lineage, write_lineage
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from taskrunner.spark.run.job import SPARK_VERSION, SparkJob
from taskrunner.spark.run.job_paths import JobPaths
from taskrunner.spark.run.region_query import Phase, RegionQuery
from taskrunner.spark.session.session import WarmSession, settings
from taskrunner.spark.session.shipped_artifacts import shipped
from taskrunner.stopping import (
    CannotStop,
    Interrupted,
    NotInTime,
    StopFailed,
    cancel,
    reach_boundary,
    stop_at_once,
)

_TICK_SECONDS = 0.1
_CONFIRMATION = timedelta(seconds=30)
"""How long after its deadline the savepoint of a stop may be confirmed."""
log = logs.get("attempt")

Ending = AttemptFinished | AttemptStopped | AttemptCancelled | AttemptFailed


class Attempt:
    """Runs one attempt. `run` belongs to one thread; the rest to any. Its session stays open."""

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
        """It was stopped, and another attempt is to come to this runner."""
        self._run = run
        self._client = client
        self._session = session
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._spark_job: SparkJob | None = None
        self._barriers: BarrierThread | None = None
        self._early: list[Barrier | CheckpointCompleted | CheckpointAborted] = []
        self._early_lock = Lock()
        self._last_progress: list[RegionProgress] = []

    @property
    def layout(self) -> JobLayout:
        return layout_of(self._run.storage, self.job, self._run.checkpoints)

    def run(self, report: Callable[[AttemptPrepared | AttemptRunning], None]) -> Ending | None:
        """Runs the job to its end. None: the attempt was replaced, and says nothing."""
        try:
            return self._run_to_end(report)
        except Superseded as error:
            log.warning("attempt_superseded", reason=str(error))
            return None
        except Exception as error:
            return AttemptFailed(failure=failure_of(error))
        finally:
            self._end()

    def order(self, order: Order) -> None:
        """Tells the attempt to end, or that something it waits for has come."""
        self._orders.put(order)

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

    def _run_to_end(
        self, report: Callable[[AttemptPrepared | AttemptRunning], None]
    ) -> Ending | None:
        try:
            spark_job = self._prepare()
            report(AttemptPrepared(repartitioned=list(spark_job.repartitioned)))
            self._heed_orders()
        except Interrupted as interrupted:
            return _obey(None, interrupted.order)
        self._start(spark_job)
        report(AttemptRunning(restored=restored_regions(spark_job)))
        return self._supervise(spark_job)

    def _prepare(self) -> SparkJob:
        """Everything up to the start of the queries."""
        graph = graph_document.parse(self._run.graph)
        fence = Fence(self.layout, self.number)
        fence.raise_epoch()
        past = self._past(graph)
        subject = AttemptContext(
            self.job,
            self.number,
            graph,
            self._run.parallelism,
            SPARK_VERSION,
            self._run.graph,
            read_lineage(self.layout),
        )
        self._heed_orders()
        spark = self._session.open(
            settings(
                name=graph.name,
                master=self._run.spark_master,
                parallelism=self._run.parallelism,
                extra=graph.spark,
            )
        )
        shipped.become(spark, local_path(self._run.storage), graph.artifacts)
        places = JobPaths(self.layout, local_path(self._run.data_root))
        spark_job = SparkJob(spark, subject, places, fence, past)
        spark_job.prepare(self._heed_orders)
        snapshots = Snapshots(subject, self.layout, fence)
        if past.completed is not None:
            snapshots.learn(past.completed)
        self._start_barriers(subject, snapshots, spark_job)
        return spark_job

    def _start(self, spark_job: SparkJob) -> None:
        try:
            for region in spark_job.regions:
                region.start()
        except BaseException:
            stop_at_once(spark_job.regions)
            raise
        self._spark_job = spark_job

    def _past(self, graph: JobGraph) -> Past:
        """What the attempt may start from. The restore point is opened only if a region has
        nothing newer to go on from.
        """
        checkpoint, point = self._run.checkpoint, self._run.restore_point
        completed = (
            read_manifest(self.layout, CheckpointNumber(checkpoint.number)) if checkpoint else None
        )
        past = Past(completed, None, AttemptNumber(self._run.base_attempt))
        clones = Clones(self.layout, self.number, past)
        choices = [clones.choose(region.id) for region in plan_of(graph).regions]
        if point is None or not any(isinstance(one, FromScratch) for one in choices):
            return past
        origin = open_restore_source(point, graph)
        write_lineage(self.layout, self.job, origin)
        return replace(past, origin=origin)

    def _start_barriers(
        self, subject: AttemptContext, snapshots: Snapshots, spark_job: SparkJob
    ) -> None:
        if subject.graph.mode is Mode.BATCH:
            return  # a batch job has no boundary to snapshot at
        queries = {one.id: one for one in spark_job.regions if isinstance(one, RegionQuery)}
        running = (Phase.RUNNING, Phase.DRAINING)
        barriers = BarrierThread(
            subject,
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
                case None | StopSettled():
                    pass
                case StopAsked(stop=stop):
                    if self._barriers is not None:
                        return self._stop(spark_job, stop, self._barriers)
                    log.warning("stop_ignored", reason="a batch job has no boundary to stop at")
                case order:
                    return _obey(spark_job, order)
            phases = {region.poll() for region in spark_job.regions}
            if Phase.FAILED in phases:
                raise region_failure(spark_job)
            if phases == {Phase.FINISHED}:
                self._end_barriers()
                spark_job.show_everything()
                return AttemptFinished()

    def _stop(self, spark_job: SparkJob, stop: Stop, barriers: BarrierThread) -> Ending | None:
        """Ends at a boundary with a savepoint, unless something else comes first."""
        log.info("stopping", savepoint=stop.savepoint.id, drain=stop.drain)
        try:
            self._reach_boundary(spark_job, stop, barriers)
            barriers.tell(stop)
            self._await_settlement(stop)
        except Interrupted as interrupted:
            return _obey(spark_job, interrupted.order)
        self.keeps_runner = stop.keep_runner
        return AttemptStopped(savepoint=stop.savepoint.id)

    def _reach_boundary(self, spark_job: SparkJob, stop: Stop, barriers: BarrierThread) -> None:
        def mark(region: RegionId, batch: int) -> None:
            durable.write(self.layout.drain(self.number, region), f"{batch}\n")

        def check() -> None:
            self._heed_orders()
            if datetime.now(UTC) >= stop.expires_at:
                raise NotInTime("no boundary was reached in time")

        barriers.refuse_barriers()
        regions = [one for one in spark_job.regions if isinstance(one, RegionQuery)]
        try:
            reach_boundary(regions, mark if stop.drain else None, check)
        except NotInTime as error:
            barriers.decline(stop, "no_boundary_in_time", str(error))
            raise StopFailed(str(error)) from None
        except CannotStop as error:
            barriers.decline(stop, "not_running", str(error), error.region)
            if any(region.phase is Phase.FAILED for region in regions):
                raise region_failure(spark_job) from None
            raise StopFailed(f"region {error.region}: {error}") from None

    def _heed_orders(self) -> None:
        """Raises `Interrupted` if something came that goes before a start or a stop."""
        stops = []
        with suppress(Empty):
            while True:
                order = self._orders.get_nowait()
                if not isinstance(order, StopAsked | StopSettled):
                    raise Interrupted(order)
                stops.append(order)
        for stop in stops:
            self._orders.put(stop)

    def _await_settlement(self, stop: Stop) -> None:
        while True:
            match self._next_order():
                case StopSettled(fault=None):
                    return
                case StopSettled(fault=fault):
                    raise StopFailed(f"the savepoint was not taken: {fault}")
                case None | StopAsked():
                    if datetime.now(UTC) >= stop.expires_at + _CONFIRMATION:
                        raise StopFailed("the savepoint was not confirmed in time")
                case order:
                    raise Interrupted(order)

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
        stop_at_once(self._spark_job.regions if self._spark_job else [])
        self.progress()
        self._end_barriers()


def _obey(spark_job: SparkJob | None, order: CancelAsked | Replaced | Dismissed) -> Ending | None:
    match order:
        case CancelAsked():
            return AttemptCancelled(detail=cancel(spark_job.regions if spark_job else [], order))
        case Replaced(why=why):
            raise Superseded(why)
        case Dismissed(why=why):
            log.warning("dismissed", reason=why)
            return None
