"""Restores a region for a new attempt: its state, and the output that belongs to that state."""

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.job_plan import Region
from jobmanager.core.plan.key_groups import Layout
from jobmanager.protocol.messages import RepartitionedRegion
from taskrunner import logs
from taskrunner.core import restore
from taskrunner.core.restore import FromSavepoint, FromScratch, Restore
from taskrunner.sinks.directory import Guard
from taskrunner.sinks.output_files import FilesOf
from taskrunner.sinks.outputs import Output, note_outputs, withdraw_abandoned
from taskrunner.snapshots.clone import Clones, Past
from taskrunner.snapshots.snapshot import AttemptContext
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.registry import lost_batches
from taskrunner.spark.connectors.writing import OutputPlaces
from taskrunner.spark.run.job_paths import JobPaths
from taskrunner.spark.state.repartition import repartition

log = logs.get("restore")


class Restoring:
    """Restores the regions of one attempt. The epoch must have been raised."""

    def __init__(
        self,
        spark: SparkSession,
        subject: AttemptContext,
        places: JobPaths,
        past: Past,
        files_of: FilesOf,
    ) -> None:
        self._spark = spark
        self._subject = subject
        self._places = places
        self._past = past
        self._files_of = files_of
        self._clones = Clones(places.layout, subject.attempt, past)
        self.chosen: dict[RegionId, Restore] = {}
        """What each region was restored from."""
        self.repartitioned: list[RepartitionedRegion] = []

    def withdraw_abandoned_outputs(self, outputs: Collection[Output], guard: Guard) -> None:
        """Withdraws output of rolled-back attempts in directories this attempt does not use."""
        layout, job, origin = self._places.layout, self._subject.job, self._past.origin
        if origin is not None and origin.job == job:
            withdraw_abandoned(layout, job, outputs, origin.manifest.attempt, guard, self._files_of)
        note_outputs(layout, outputs, self._files_of)

    def restore(self, region: Region, sinks: Sequence[BatchSink]) -> None:
        """Makes the region's Spark checkpoint directory, and withdraws later output.

        The directory gets its name last: after a crash in here the next attempt finds no
        directory, and does everything again.
        """
        places = OutputPlaces(
            self._subject.job, self._places.layout, self._places.resolve, self._files_of
        )
        lost = lost_batches(self._subject.graph, region.sinks, places)
        choice = self._clones.choose(region.id, lost)
        draft = self._clones.draft(region.id, choice)
        if isinstance(choice, FromSavepoint):
            choice = self._fit(region, choice, draft)
        if isinstance(choice, FromSavepoint | FromScratch):
            self._continue_output(sinks)
        for sink in sinks:
            sink.recover(restore.last_kept_batch(choice), self._last_visible(region, choice))
        self._clones.finish(region.id)
        self.chosen[region.id] = choice
        log.info("region_restored", region=region.id, why=choice.why)

    def _fit(self, region: Region, choice: FromSavepoint, draft: Path) -> FromSavepoint:
        """Repartitions the state if it was written for another parallelism."""
        assert self._past.origin is not None
        written, wanted = self._past.origin.manifest.parallelism, self._subject.parallelism
        if written == wanted:
            return choice
        began = time.monotonic()
        batch = repartition(self._spark, draft, self._layouts(region), wanted)
        if batch is None:
            return choice
        self.repartitioned.append(
            RepartitionedRegion(
                region=region.id,
                from_parallelism=written,
                to_parallelism=wanted,
                batch=batch,
                duration_ms=round(1000 * (time.monotonic() - began)),
            )
        )
        why = f"{choice.why}; its state was repartitioned from {written} to {wanted}"
        return replace(choice, why=why)

    def _layouts(self, region: Region) -> Sequence[Layout]:
        """The layouts of the region's stateful operators, in Spark's order."""
        graph = self._subject.graph
        keyed = spark_order.keyed(graph, VertexId(region.id))
        return [graph.vertex(vertex).state_layout for vertex in keyed]

    def _continue_output(self, sinks: Sequence[BatchSink]) -> None:
        """Withdraws output that other jobs of the lineage published after this job's restore point.
        A job that continues from its own state has already done so at its first start.
        """
        origin = self._past.origin
        if origin is not None and origin.job != self._subject.job:
            for sink in sinks:
                sink.continue_output(origin.manifest.lineage)

    def _last_visible(self, region: Region, choice: Restore) -> int | None:
        """The last batch that is certainly covered by a checkpoint or savepoint."""
        if isinstance(choice, FromSavepoint):
            return choice.batch  # its attempt may have died before it published anything
        completed = self._past.completed
        known = completed.regions.get(region.id) if completed else None
        return known.batch if known else None
