"""A job on Spark: restored, compiled, and its regions ready to start."""

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol, assert_never

import pyspark
from pyspark.sql import SparkSession

from jobmanager.core.graph import (
    BlackholeSink,
    ConsoleSink,
    FilesSink,
    JobGraph,
    Mode,
    Sink,
    Visibility,
)
from jobmanager.core.ids import AttemptNumber, JobId, RegionId, VertexId
from jobmanager.core.manifest import Manifest
from jobmanager.core.plan import Region, plan_of
from jobmanager.core.storage_uri import local_path
from jobmanager.protocol.messages import RegionProgress
from taskrunner import logs
from taskrunner.core import restore
from taskrunner.core.restore import FromSavepoint, FromScratch, Restore
from taskrunner.sinks.continuation import continue_output
from taskrunner.sinks.directory import Guard, SinkDirectory
from taskrunner.snapshots.clone import Clones
from taskrunner.snapshots.fence import Fence, read_epoch
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.origin import Origin
from taskrunner.snapshots.snapshot import Subject
from taskrunner.spark import session
from taskrunner.spark.batch_region import BatchRegion
from taskrunner.spark.batch_sinks import BatchSink, Discarded, ExactlyOnceFiles, Shown
from taskrunner.spark.compiler import Compiler
from taskrunner.spark.region_query import Phase, RegionQuery
from taskrunner.spark.sources import Sources

SPARK_VERSION: str = pyspark.__version__
log = logs.get("job")


class RegionRun(Protocol):
    """One region under way, streaming or batch."""

    output_rows: int
    error: BaseException | None
    phase: Phase

    @property
    def id(self) -> RegionId: ...
    def start(self) -> None: ...
    def poll(self) -> Phase: ...
    def ask_to_stop(self) -> bool: ...
    def await_stop(self, within: timedelta) -> bool: ...
    def stop(self) -> None: ...
    def progress(self) -> RegionProgress: ...


@dataclass(frozen=True, slots=True)
class Places:
    """Where a job's things are."""

    layout: JobLayout
    data_root: Path

    def resolve(self, path: str) -> Path:
        """The place that a path in the graph means."""
        if "://" in path or path.startswith("file:"):
            return local_path(path)
        return (self.data_root / path).resolve()

    def guard_of(self, job: JobId) -> Guard:
        """Keeps all attempts of another job, which has ended, out for good."""
        layout = JobLayout(self.layout.directory.with_name(job.hex))
        if not layout.directory.exists():
            return nullcontext  # it ran elsewhere
        fence = Fence(layout, AttemptNumber(read_epoch(layout) + 1))
        fence.raise_epoch()
        return fence.holding


class SparkJob:
    """One attempt of one job in a Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        subject: Subject,
        places: Places,
        fence: Fence,
        completed: Manifest | None,
        origin: Origin | None = None,
    ) -> None:
        self._spark = spark
        self._subject = subject
        self._places = places
        self._fence = fence
        self._completed = completed
        self._origin = origin
        self.restored: dict[RegionId, Restore] = {}
        self.held_sinks: dict[RegionId, SinkDirectory] = {}
        """Those whose output waits for its checkpoint."""
        self.regions: list[RegionRun] = []

    def prepare(self) -> None:
        """Restores and compiles every region. The epoch must have been raised."""
        graph = self._subject.graph
        sources = Sources(
            self._spark,
            graph.mode,
            self._subject.parallelism,
            self._places.resolve,
            self._places.layout,
            datetime.now(UTC),
        )
        for region in plan_of(graph, self._subject.parallelism).regions:
            compiler = Compiler(graph, self._subject.parallelism, sources.read)
            self.regions.append(self._region(region, compiler))

    def show_everything(self) -> None:
        """A bounded job has ended: nothing it wrote waits for a checkpoint any more."""
        for sink in self.held_sinks.values():
            sink.show_up_to(2**63)

    def _region(self, region: Region, compiler: Compiler) -> RegionRun:
        sink = self._subject.graph.vertex(VertexId(region.id))
        assert isinstance(sink, Sink)
        rows = compiler.rows_into(sink)
        if self._subject.graph.mode is Mode.BATCH:
            directory = self._sink_directory(region, sink)
            if directory is not None:
                directory.recover(last_kept=0, last_visible=0)
            self.restored[region.id] = FromScratch("a batch job starts over")
            is_done = directory is not None and directory.state_of(0) is not None
            writer = self._batch_sink(sink, directory)
            return BatchRegion(self._spark, region, rows, writer, is_done)
        writer = self._batch_sink(sink, self._restore(region, sink))
        place = self._places.layout.spark_checkpoint_dir(self._subject.attempt, region.id)
        return RegionQuery(self._spark, self._subject.graph, region, rows, writer, place)

    def _restore(self, region: Region, sink: Sink) -> SinkDirectory | None:
        clones = Clones(self._places.layout, self._subject.attempt)
        choice = clones.choose(region.id, self._completed, self._origin)
        directory = self._sink_directory(region, sink)
        if isinstance(choice, FromSavepoint | FromScratch):
            # before there is a clone: an attempt that finds one does not come here
            self._continue_output(region, sink)
        clones.restore(region.id, choice, self._completed, self._origin)
        self.restored[region.id] = choice
        log.info("region_restored", region=region.id, why=choice.why)
        if directory is not None:
            directory.recover(restore.last_kept_batch(choice), self._batch_completed(region))
            if _is_held(sink):
                self.held_sinks[region.id] = directory
        return directory

    def _continue_output(self, region: Region, sink: Sink) -> None:
        """Withdraws what the jobs that this one goes on with published after its start."""
        if self._origin is None or not isinstance(sink.connector, FilesSink):
            return
        directory = self._places.resolve(sink.connector.path)
        lineage = self._origin.manifest.lineage
        job = self._subject.job
        continue_output(directory, job, region.id, lineage, self._places.guard_of)

    def _batch_completed(self, region: Region) -> int | None:
        known = self._completed.regions.get(region.id) if self._completed else None
        return known.batch if known else None

    def _sink_directory(self, region: Region, sink: Sink) -> SinkDirectory | None:
        if not isinstance(sink.connector, FilesSink):
            return None
        return SinkDirectory(
            self._places.resolve(sink.connector.path),
            self._subject.job,
            region.id,
            self._subject.attempt,
            self._fence.holding,
        )

    def _batch_sink(self, sink: Sink, directory: SinkDirectory | None) -> BatchSink:
        match sink.connector:
            case FilesSink():
                assert directory is not None
                is_held = _is_held(sink) and self._subject.graph.mode is Mode.STREAMING
                return ExactlyOnceFiles(sink, sink.connector, directory, is_held)
            case ConsoleSink():
                return Shown(lambda text: log.info("console", sink=sink.id, text=text))
            case BlackholeSink():
                return Discarded()
            case _:
                assert_never(sink.connector)


def open_session(graph: JobGraph, master: str, parallelism: int) -> SparkSession:
    """The session that a job's graph asks for."""
    return session.open_session(
        session.settings(name=graph.name, master=master, parallelism=parallelism, extra=graph.spark)
    )


def _is_held(sink: Sink) -> bool:
    files = sink.connector
    return isinstance(files, FilesSink) and files.visibility is Visibility.CHECKPOINT
