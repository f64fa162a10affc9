"""One region of a batch job: its rows are computed once, as batch 0, in a thread."""

import time
from datetime import timedelta
from threading import Thread

from pyspark.sql import SparkSession

from jobmanager.core.ids import RegionId
from jobmanager.core.plan.job_plan import Region
from jobmanager.core.progress import RegionProgress
from taskrunner.spark.compile.accumulators import Totals
from taskrunner.spark.connectors.batch_sink import BatchWriter
from taskrunner.spark.run.batch_work import BatchWork
from taskrunner.spark.run.region_query import QueryPhase

_STOP_SECONDS = 30
_AGAIN_SECONDS = 0.2


class BatchRegion:
    """Runs one region of a batch job. It has the same shape as a `RegionQuery`."""

    def __init__(
        self, spark: SparkSession, region: Region, work: BatchWork, sink: BatchWriter, is_done: bool
    ) -> None:
        self.region = region
        self.phase = QueryPhase.FINISHED if is_done else QueryPhase.RUNNING
        self.error: BaseException | None = None
        self.output_rows = 0
        self._spark = spark
        self._work = work
        self._sink = sink
        self._totals = Totals(spark, region.id, None)
        self._thread = Thread(target=self._run, name=f"batch-{region.id}", daemon=True)

    @property
    def id(self) -> RegionId:
        return self.region.id

    def start(self) -> None:
        if self.phase is QueryPhase.RUNNING:
            self._thread.start()
        else:
            self._work.leave(self.id)

    def poll(self) -> QueryPhase:
        return self.phase

    def ask_to_stop(self) -> bool:
        """Not possible: a batch job has no boundary before its end."""
        return self.phase is not QueryPhase.RUNNING

    def has_ended(self, within: timedelta) -> bool:
        """Whether the region ended in time; it may have failed."""
        if self._thread.is_alive():
            self._thread.join(within.total_seconds())
        return not self._thread.is_alive()

    def stop(self) -> None:
        if self._thread.is_alive():
            self.phase = QueryPhase.STOPPED
            self._work.stop()
            deadline = time.monotonic() + _STOP_SECONDS
            # repeatedly: between two Spark jobs of a loop there is none to cancel
            while self._thread.is_alive() and time.monotonic() < deadline:
                self._spark.sparkContext.cancelAllJobs()
                self._thread.join(_AGAIN_SECONDS)
        self._work.leave(self.id)

    def progress(self) -> RegionProgress:
        is_done = self.phase is QueryPhase.FINISHED
        return RegionProgress(
            region=self.id,
            batch=0 if is_done else None,
            batches=int(is_done),
            is_active=self.phase is QueryPhase.RUNNING,
            output_rows=self.output_rows,
            accumulators=self._totals.read(),
            activity=self._work.activity() if self.phase is QueryPhase.RUNNING else None,
            loops=self._work.progress(self.region),
        )

    def _run(self) -> None:
        try:
            self._totals.begin()
            self.output_rows = self._compute()
            self._totals.add(0)
        except BaseException as error:
            if self.phase is QueryPhase.RUNNING:
                self.error = error
                self.phase = QueryPhase.FAILED
        else:
            if self.phase is QueryPhase.RUNNING:
                self.phase = QueryPhase.FINISHED

    def _compute(self) -> int:
        try:
            with self._work.turn(lambda: self.phase is QueryPhase.RUNNING):
                return self._sink.write(self._work.rows_of(self.region), 0)
        finally:
            self._work.leave(self.id)
