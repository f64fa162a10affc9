"""A job on Spark: restored, compiled, and its regions ready to start."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import pyspark
from pyspark.sql import DataFrame, SparkSession

from jobmanager.core.errors import PathNotAllowed
from jobmanager.core.graph.connectors.files import FilesSink
from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.graph.scripts import Script
from jobmanager.core.graph.sinks import Sink, unfenced_sinks
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.paths.location import remote_location
from jobmanager.core.plan.job_plan import Region, plan_of
from jobmanager.core.progress import RegionProgress
from jobmanager.protocol.messages import RepartitionedRegion
from taskrunner import logs
from taskrunner.core.invalid_vertex import InvalidVertex, VertexRefused
from taskrunner.core.restore import FromScratch, Restore
from taskrunner.core.secret_fields import with_secrets
from taskrunner.secret_lookup import SecretLookup, SecretMissing
from taskrunner.sinks.joiner import BreakOff
from taskrunner.sinks.output_files import FilesOf, OutputFiles, Place
from taskrunner.sinks.outputs import Output, outputs_of, prepare_outputs
from taskrunner.snapshots.clone import Past
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.snapshot import AttemptContext, offsets_by_source
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.spark.compile.compiler import Compiler
from taskrunner.spark.compile.models import JobModels, SeenModels
from taskrunner.spark.compile.sources import Sources
from taskrunner.spark.connectors.batch_sink import BatchSink, BatchWriter
from taskrunner.spark.connectors.hadoop_files import files_of
from taskrunner.spark.connectors.reading import ReadContext
from taskrunner.spark.connectors.refreshes import Refreshes
from taskrunner.spark.connectors.registry import READERS, WRITERS
from taskrunner.spark.connectors.writing import WriteContext
from taskrunner.spark.run.batch_region import BatchRegion
from taskrunner.spark.run.batch_sinks import FencedBatches, Shared
from taskrunner.spark.run.batch_work import BatchWork
from taskrunner.spark.run.directory_proof import prove_directories
from taskrunner.spark.run.input_files import InputFiles
from taskrunner.spark.run.job_paths import JobPaths
from taskrunner.spark.run.real_time_query import RealTimeQuery
from taskrunner.spark.run.region_query import QueryPhase, RegionQuery
from taskrunner.spark.run.task_metrics import TaskMetricsReader, shared_reader
from taskrunner.spark.run.task_progress import TaskProgress
from taskrunner.spark.scripts.script_program import scripts_of
from taskrunner.spark.scripts.script_sinks import ScriptBatches
from taskrunner.spark.state.restoring import Restoring
from taskrunner.spark.state.table_withdrawals import TableWithdrawals

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
        secret: SecretLookup = SecretLookup(),  # noqa: B008 (it is immutable)
        partitions: Mapping[VertexId, int] = MappingProxyType({}),
        *,
        is_shared: bool = False,
    ) -> None:
        """`partitions`: of the sources of a real-time job, those that there are slots for.
        `is_shared`: other jobs run in the same Spark.
        """
        self._secret = secret
        self._partitions = partitions
        self._spark = spark
        self._subject = subject
        self._places = places
        self._fence = fence
        self._past = past
        self._check_fence_time = check_fence_time
        self.unfenced = tuple(one.id for one in unfenced_sinks(subject.graph.vertices))
        """Sinks that this attempt could write to after it was replaced."""
        self._files_of = self._operations_on(spark)
        self._restoring = Restoring(spark, subject, places, past, self._files_of)
        self._scripts = scripts_of(spark, places)
        self._refreshes = Refreshes()
        self._reading = ReadContext(
            spark,
            subject.graph.mode,
            subject.parallelism,
            places.resolve_input,
            places.layout,
            datetime.now(UTC),
            self._refreshes,
            limits_batches=subject.graph.execution.limits_batches,
        )
        self._writing = WriteContext(
            spark,
            subject.graph,
            subject.job,
            subject.attempt,
            subject.parallelism,
            places.resolve,
            places.layout,
            fence.holding,
            places.guard_of,
            self._script_sink,
        )
        self.held_sinks: dict[RegionId, list[BatchSink]] = {}
        """Sinks whose output waits for its checkpoint."""
        self.regions: list[RegionRun] = []
        self._sources: Mapping[RegionId, Sequence[VertexId]] = {}
        self._task_metrics = shared_reader(spark) if is_shared else TaskMetricsReader(spark)
        self._is_shared = is_shared

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
        if not self._is_shared:
            self._task_metrics.begin()
        sources = Sources(self._reading, self._secret)
        regions = plan_of(graph, self._subject.parallelism).regions
        outputs = self._outputs(regions)
        staging = prepare_outputs(self._places.layout, outputs, self._files_of)
        prove_directories(self._spark, [self._places.layout.directory, *staging])
        self._restoring.withdraw_abandoned_outputs(outputs, self._fence.holding)
        TableWithdrawals(self._places.layout, self._subject, self._open).before_the_attempt(
            self._past.origin
        )
        models = SeenModels(self._places.resolve)
        work = self._batch_work(sources, regions) if graph.mode is Mode.BATCH else None
        self._sources = {region.id: region.sources for region in regions}
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

    def note_restore_point(self, region: RegionId, batch: int) -> None:
        """A checkpoint or savepoint is being taken at this batch."""
        for sink in self.held_sinks.get(region, ()):
            sink.note_restore_point(batch)

    def join_files(self, region: RegionId, batch: int, break_off: BreakOff) -> None:
        """Joins small files of held output, which is to be shown up to this batch."""
        for sink in self.held_sinks.get(region, ()):
            sink.join_up_to(batch, break_off)

    def checkpointed(self, region: RegionId, batch: int) -> None:
        """Tells the sources of a region that a checkpoint at this batch is complete."""
        graph, layout = self._subject.graph, self._places.layout
        told = [
            (one, reader.checkpointed)
            for one in (graph.vertex(vertex) for vertex in self._sources.get(region, ()))
            if isinstance(one, Source)
            if (reader := READERS[type(one.connector)]).checkpointed is not None
        ]
        if not told:
            return
        log_of_query = SparkLog(layout.spark_checkpoint_dir(self._subject.attempt, region))
        offsets = offsets_by_source(graph, region, log_of_query, batch)
        for source, tell in told:
            filled = with_secrets(source, self._secret)
            tell(filled, filled.connector, offsets.get(source.id), self._reading)

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
        rows = compiler.rows_of(region)
        sinks = [self._open(self._sink(one)) for one in region.sinks]
        self._begin(region, sinks, rows, compiler)
        if work is not None:
            for sink in sinks:
                sink.recover(last_kept=0, last_visible=0)
            self._restoring.chosen[region.id] = FromScratch("a batch job starts over")
            is_done = all(one.has_batch(0) for one in sinks)
            return BatchRegion(self._spark, region, work, self._fenced(sinks[0]), is_done)
        self._restoring.restore(region, sinks)
        self.held_sinks[region.id] = [one for one in sinks if one.holds_output]
        place = self._places.layout.spark_checkpoint_dir(self._subject.attempt, region.id)
        if self._subject.graph.execution.is_real_time:
            return self._real_time_query(region, rows, place)
        writer = sinks[0] if len(sinks) == 1 else self._shared(region, sinks, compiler)
        return RegionQuery(
            self._spark,
            self._subject.graph,
            region,
            rows,
            self._fenced(writer),
            place,
            self._inputs(place),
            self._refreshes,
            TaskProgress(
                self._subject.graph, self._subject.parallelism, region, self._task_metrics
            ),
        )

    def _real_time_query(self, region: Region, rows: DataFrame, place: Path) -> RealTimeQuery:
        [sink] = [with_secrets(self._sink(one), self._secret) for one in region.sinks]
        pass_on = WRITERS[type(sink.connector)].pass_on
        assert pass_on is not None  # the graph was checked
        return RealTimeQuery(
            self._spark,
            self._subject.graph,
            region,
            rows,
            lambda given: pass_on(sink, sink.connector, given, self._writing),
            self._check_attempt,
            place,
            self._partitions,
            self._refreshes,
        )

    def _inputs(self, spark_checkpoint_dir: Path) -> InputFiles | None:
        rules = self._places.rules
        if rules is None:
            return None
        return InputFiles(spark_checkpoint_dir, rules.graphs, self._places.layout.work.uri)

    def _fenced(self, writer: BatchWriter) -> BatchWriter:
        return FencedBatches(writer, self._check_attempt)

    def _check_attempt(self) -> None:
        """Whether this attempt may begin a batch. Raises `Superseded` or `JobManagerLost`."""
        self._fence.check()
        if self.unfenced:
            self._check_fence_time()

    def _shared(
        self, region: Region, sinks: Sequence[BatchSink], compiler: Compiler
    ) -> BatchWriter:
        """One sink that gives each batch to all sinks of the region."""
        rows_for = self._rows_for(region, compiler)
        return Shared(list(zip(rows_for, sinks, strict=True)))

    def _begin(
        self, region: Region, sinks: Sequence[BatchSink], rows: DataFrame, compiler: Compiler
    ) -> None:
        """Tells each sink which columns will come."""
        if len(sinks) == 1:
            schemas = [rows.schema]
        else:
            schemas = [rows_for(rows).schema for rows_for in self._rows_for(region, compiler)]
        for vertex, sink, schema in zip(region.sinks, sinks, schemas, strict=True):
            with _naming(self._sink(vertex)):
                sink.begin(schema)

    def _rows_for(
        self, region: Region, compiler: Compiler
    ) -> Sequence[Callable[[DataFrame], DataFrame]]:
        """For each sink of a region, how its rows are made from the rows that all sinks share."""
        vertices = [self._sink(one) for one in region.sinks]
        return [partial(compiler.rows_after, region.root, sink) for sink in vertices]

    def _outputs(self, regions: Sequence[Region]) -> list[Output]:
        """The directories that files sinks write to."""
        found: list[Output] = []
        for sink in (self._sink(one) for region in regions for one in region.sinks):
            with _naming(sink):
                found += outputs_of(self._subject.graph, [sink.id], self._places.resolve)
        return found

    def _operations_on(self, spark: SparkSession) -> FilesOf:
        """The operations on the directories of files sinks."""

        def of(place: Place) -> OutputFiles:
            return files_of(spark, sinks_at(place, self._subject.graph, self._secret))(place)

        return of

    def _sink(self, vertex_id: VertexId) -> Sink:
        sink = self._subject.graph.vertex(vertex_id)
        assert isinstance(sink, Sink)
        return sink

    def _open(self, sink: Sink) -> BatchSink:
        with _naming(sink):
            filled = with_secrets(sink, self._secret)
            return WRITERS[type(sink.connector)].open(filled, filled.connector, self._writing)

    def _script_sink(self, sink: Sink) -> BatchSink:
        script = self._subject.graph.vertex(sink.inputs[0].vertex)
        if not isinstance(script, Script):
            raise VertexRefused("connector script is for the queries of scripts")
        return ScriptBatches(self._scripts.writer(script))


def sinks_at(place: Place, graph: JobGraph, secret: SecretLookup) -> list[Sink]:
    """The files sinks of a graph in a remote place, with secrets; on this machine none is needed.
    Raises `SecretMissing`.
    """
    return [
        with_secrets(one, secret)
        for one in graph.vertices
        if isinstance(one, Sink) and isinstance(one.connector, FilesSink)
        if remote_location(one.connector.path) == place
    ]


@contextmanager
def _naming(sink: Sink) -> Iterator[None]:
    """Turns refusals into faults of the sink."""
    try:
        yield
    except VertexRefused as error:
        raise InvalidVertex(sink.id, error.message, error.field) from error
    except SecretMissing as error:
        raise InvalidVertex(sink.id, str(error)) from error
    except PathNotAllowed as error:
        named = next(iter(sink.places()), ("", ""))[0]
        raise InvalidVertex(sink.id, str(error), named) from error
