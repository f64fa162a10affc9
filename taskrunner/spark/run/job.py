"""A job on Spark: restored, compiled, and its regions ready to start."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Protocol, assert_never

import pyspark
from pyspark.sql import SparkSession

from jobmanager.core.errors import PathNotAllowed
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.scripts import Script
from jobmanager.core.graph.sinks import (
    BlackholeSink,
    ConsoleSink,
    FilesSink,
    PythonSink,
    ScriptSink,
    Sink,
    Visibility,
    unfenced_sinks,
)
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.plan.job_plan import Region, plan_of
from jobmanager.core.progress import RegionProgress
from jobmanager.protocol.messages import RepartitionedRegion
from taskrunner import logs
from taskrunner.core.restore import FromScratch, Restore
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.sinks.outputs import Output, prepare_outputs
from taskrunner.snapshots.clone import Past
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.snapshot import AttemptContext
from taskrunner.spark.compile.compiler import Compiler, InvalidVertex
from taskrunner.spark.compile.models import JobModels, SeenModels
from taskrunner.spark.compile.sources import Sources
from taskrunner.spark.run.batch_region import BatchRegion
from taskrunner.spark.run.batch_sinks import (
    BatchSink,
    Discarded,
    ExactlyOnceFiles,
    FencedBatches,
    PythonWriter,
    Shared,
    Shown,
)
from taskrunner.spark.run.batch_work import BatchWork
from taskrunner.spark.run.directory_proof import prove_directories
from taskrunner.spark.run.input_files import InputFiles
from taskrunner.spark.run.job_paths import JobPaths
from taskrunner.spark.run.region_query import QueryPhase, RegionQuery
from taskrunner.spark.scripts.script_program import scripts_of
from taskrunner.spark.scripts.script_sinks import ScriptBatches
from taskrunner.spark.state.restoring import Restoring

SPARK_VERSION: str = pyspark.__version__
log = logs.get("job")


class RegionRun(Protocol):
    """One region under way, streaming or batch."""

    output_rows: int
    error: BaseException | None
    phase: QueryPhase

    @property
    def id(self) -> RegionId: ...
    def start(self) -> None: ...
    def poll(self) -> QueryPhase: ...
    def ask_to_stop(self) -> bool: ...
    def has_ended(self, within: timedelta) -> bool: ...
    def stop(self) -> None: ...
    def progress(self) -> RegionProgress: ...


class SparkJob:
    """One attempt of one job in a Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        subject: AttemptContext,
        places: JobPaths,
        fence: Fence,
        past: Past,
        check_fence_time: Callable[[], None] = lambda: None,
    ) -> None:
        self._spark = spark
        self._subject = subject
        self._places = places
        self._fence = fence
        self._check_fence_time = check_fence_time
        self.unfenced = tuple(one.id for one in unfenced_sinks(subject.graph.vertices))
        """Sinks that this attempt could write to after it was replaced."""
        self._restoring = Restoring(spark, subject, places, past)
        self._scripts = scripts_of(spark, places)
        self.held_sinks: dict[RegionId, list[SinkDirectory]] = {}
        """Sinks whose output waits for its checkpoint."""
        self.regions: list[RegionRun] = []

    @property
    def restored(self) -> Mapping[RegionId, Restore]:
        """What each region was restored from."""
        return self._restoring.chosen

    @property
    def has_boundaries(self) -> bool:
        """False for a batch job, which is one single batch."""
        return self._subject.graph.mode is not Mode.BATCH

    @property
    def repartitioned(self) -> Sequence[RepartitionedRegion]:
        return self._restoring.repartitioned

    def prepare(self, check: Callable[[], None] = lambda: None) -> None:
        """Restores and compiles every region. The epoch must have been raised.

        `check` is called before each region, and may raise an error to abandon the preparation.
        """
        graph = self._subject.graph
        sources = Sources(
            self._spark,
            graph.mode,
            self._subject.parallelism,
            self._places.resolve_input,
            self._places.layout,
            datetime.now(UTC),
        )
        regions = plan_of(graph, self._subject.parallelism).regions
        outputs = self._outputs(regions)
        staging = prepare_outputs(self._places.layout, outputs)
        prove_directories(self._spark, [self._places.layout.directory, *staging])
        self._restoring.withdraw_abandoned_outputs(outputs, self._fence.holding)
        models = SeenModels(self._places.resolve)
        work = self._batch_work(sources, regions) if graph.mode is Mode.BATCH else None
        for region in regions:
            check()
            compiler = Compiler(
                graph,
                self._subject.parallelism,
                sources.read,
                script=self._scripts.rows,
                models=models,
            )
            self.regions.append(self._region(region, compiler, work))

    def show_everything(self) -> None:
        """Publishes all held output, after a bounded job has ended."""
        for sinks in self.held_sinks.values():
            for sink in sinks:
                sink.show_up_to(2**63)

    def _batch_work(self, sources: Sources, regions: Sequence[Region]) -> BatchWork:
        subject = self._subject
        directory = self._places.layout.rounds(subject.attempt)
        models = JobModels(
            self._places.resolve, subject.job, self._fence.holding, directory / "fits"
        )
        return BatchWork(
            subject.graph, subject.parallelism, sources.read, regions, models, directory
        )

    def _region(self, region: Region, compiler: Compiler, work: BatchWork | None) -> RegionRun:
        """Makes a region. In a batch job it is compiled here only to find faults: the region
        compiles again in its turn, and then runs the loops upstream of its sink.
        """
        sinks = [self._sink(one) for one in region.sinks]
        rows = compiler.rows_of(region)
        directories = [self._sink_directory(sink) for sink in sinks]
        found = [one for one in directories if one is not None]
        writers = list(map(self._batch_sink, sinks, directories))
        if work is not None:
            for directory in found:
                directory.recover(last_kept=0, last_visible=0)
            self._restoring.chosen[region.id] = FromScratch("a batch job starts over")
            is_done = bool(found) and all(one.state_of(0) is not None for one in found)
            return BatchRegion(self._spark, region, work, self._fenced(writers[0]), is_done)
        self._restoring.restore(region, sinks, found)
        self.held_sinks[region.id] = [
            directory
            for sink, directory in zip(sinks, directories, strict=True)
            if directory is not None and _is_held(sink)
        ]
        place = self._places.layout.spark_checkpoint_dir(self._subject.attempt, region.id)
        writer = writers[0] if len(sinks) == 1 else self._shared(region, sinks, writers, compiler)
        inputs = self._inputs(place)
        return RegionQuery(
            self._spark, self._subject.graph, region, rows, self._fenced(writer), place, inputs
        )

    def _inputs(self, spark_checkpoint_dir: Path) -> InputFiles | None:
        rules = self._places.rules
        if rules is None:
            return None
        return InputFiles(spark_checkpoint_dir, rules.graphs, self._places.layout.work.uri)

    def _fenced(self, writer: BatchSink) -> BatchSink:
        return FencedBatches(writer, self._check_attempt)

    def _check_attempt(self) -> None:
        """Whether this attempt may begin a batch. Raises `Superseded` or `JobManagerLost`."""
        self._fence.check()
        if self.unfenced:
            self._check_fence_time()

    def _shared(
        self,
        region: Region,
        sinks: Sequence[Sink],
        writers: Sequence[BatchSink],
        compiler: Compiler,
    ) -> BatchSink:
        """One sink that gives each batch to all sinks of the region."""
        rows_for = [partial(compiler.rows_after, region.root, sink) for sink in sinks]
        return Shared(list(zip(rows_for, writers, strict=True)))

    def _outputs(self, regions: Sequence[Region]) -> list[Output]:
        sinks = [self._sink(one) for region in regions for one in region.sinks]
        return [
            (sink.id, self._place(sink, sink.connector))
            for sink in sinks
            if isinstance(sink.connector, FilesSink)
        ]

    def _sink(self, vertex_id: VertexId) -> Sink:
        sink = self._subject.graph.vertex(vertex_id)
        assert isinstance(sink, Sink)
        return sink

    def _sink_directory(self, sink: Sink) -> SinkDirectory | None:
        if not isinstance(sink.connector, FilesSink):
            return None
        return SinkDirectory(
            self._place(sink, sink.connector),
            self._subject.job,
            sink.id,
            self._subject.attempt,
            self._fence.holding,
        )

    def _place(self, sink: Sink, files: FilesSink) -> Path:
        try:
            return self._places.resolve(files.path)
        except PathNotAllowed as error:
            raise InvalidVertex(sink.id, str(error), "path") from error

    def _batch_sink(self, sink: Sink, directory: SinkDirectory | None) -> BatchSink:
        match sink.connector:
            case FilesSink():
                assert directory is not None
                is_held = _is_held(sink) and self._subject.graph.mode is Mode.STREAMING
                return ExactlyOnceFiles(sink, sink.connector, directory, is_held)
            case ConsoleSink():
                show = partial(log.info, "console", sink=sink.id)
                return Shown(lambda text: show(text=text), self._fence.holding)
            case BlackholeSink():
                return Discarded()
            case PythonSink():
                told = {"headgate.job": self._subject.job.hex}
                told["headgate.attempt"] = str(self._subject.attempt)
                return PythonWriter(sink, sink.connector, self._spark, told)
            case ScriptSink():
                script = self._subject.graph.vertex(sink.inputs[0].vertex)
                if not isinstance(script, Script):
                    raise InvalidVertex(sink.id, "connector script is for the queries of scripts")
                return ScriptBatches(self._scripts.writer(script))
            case _:
                assert_never(sink.connector)


def _is_held(sink: Sink) -> bool:
    files = sink.connector
    return isinstance(files, FilesSink) and files.visibility is Visibility.CHECKPOINT
