"""A job on Spark: restored, compiled, and its regions ready to start."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, assert_never

import pyspark
from pyspark.sql import SparkSession

from jobmanager.core.artifact_vertices import Script, ScriptSink
from jobmanager.core.graph import (
    BlackholeSink,
    ConsoleSink,
    FilesSink,
    Mode,
    Sink,
    Visibility,
)
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.plan import Region, plan_of
from jobmanager.protocol.messages import RegionProgress, RepartitionedRegion
from taskrunner import logs
from taskrunner.core.restore import FromScratch, Restore
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.sinks.outputs import Output
from taskrunner.snapshots.clone import Past
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.snapshot import Subject
from taskrunner.spark.batch_region import BatchRegion
from taskrunner.spark.batch_sinks import BatchSink, Discarded, ExactlyOnceFiles, Shown
from taskrunner.spark.compiler import Compiler, InvalidVertex
from taskrunner.spark.places import Places
from taskrunner.spark.region_query import Phase, RegionQuery
from taskrunner.spark.restoring import Restoring
from taskrunner.spark.script_sinks import ScriptBatches
from taskrunner.spark.scripts import scripts_of
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


class SparkJob:
    """One attempt of one job in a Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        subject: Subject,
        places: Places,
        fence: Fence,
        past: Past,
    ) -> None:
        self._spark = spark
        self._subject = subject
        self._places = places
        self._fence = fence
        self._restoring = Restoring(spark, subject, places, past)
        self._scripts = scripts_of(spark, places)
        self.held_sinks: dict[RegionId, SinkDirectory] = {}
        """Those whose output waits for its checkpoint."""
        self.regions: list[RegionRun] = []

    @property
    def restored(self) -> Mapping[RegionId, Restore]:
        """Where each region was started from."""
        return self._restoring.chosen

    @property
    def repartitioned(self) -> Sequence[RepartitionedRegion]:
        return self._restoring.repartitioned

    def prepare(self, check: Callable[[], None] = lambda: None) -> None:
        """Restores and compiles every region. The epoch must have been raised.

        `check` is called before each region, and raises to give up.
        """
        graph = self._subject.graph
        sources = Sources(
            self._spark,
            graph.mode,
            self._subject.parallelism,
            self._places.resolve,
            self._places.layout,
            datetime.now(UTC),
        )
        regions = plan_of(graph, self._subject.parallelism).regions
        self._restoring.settle_outputs(self._outputs(regions), self._fence.holding)
        for region in regions:
            check()
            compiler = Compiler(graph, self._subject.parallelism, sources.read, self._scripts.rows)
            self.regions.append(self._region(region, compiler))

    def show_everything(self) -> None:
        """A bounded job has ended: nothing it wrote waits for a checkpoint any more."""
        for sink in self.held_sinks.values():
            sink.show_up_to(2**63)

    def _region(self, region: Region, compiler: Compiler) -> RegionRun:
        sink = self._subject.graph.vertex(VertexId(region.id))
        assert isinstance(sink, Sink)
        rows = compiler.rows_into(sink)
        directory = self._sink_directory(region, sink)
        writer = self._batch_sink(sink, directory)
        if self._subject.graph.mode is Mode.BATCH:
            if directory is not None:
                directory.recover(last_kept=0, last_visible=0)
            self._restoring.chosen[region.id] = FromScratch("a batch job starts over")
            is_done = directory is not None and directory.state_of(0) is not None
            return BatchRegion(self._spark, region, rows, writer, is_done)
        self._restoring.restore(region, sink, directory)
        if directory is not None and _is_held(sink):
            self.held_sinks[region.id] = directory
        place = self._places.layout.spark_checkpoint_dir(self._subject.attempt, region.id)
        return RegionQuery(self._spark, self._subject.graph, region, rows, writer, place)

    def _outputs(self, regions: Sequence[Region]) -> list[Output]:
        sinks = [(one.id, self._subject.graph.vertex(VertexId(one.id))) for one in regions]
        return [
            (region, self._places.resolve(sink.connector.path))
            for region, sink in sinks
            if isinstance(sink, Sink) and isinstance(sink.connector, FilesSink)
        ]

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
