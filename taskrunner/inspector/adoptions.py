"""Makes a savepoint from the checkpoint of a plain Spark query."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connectors.files import FilesSource
from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, VertexId
from jobmanager.core.plan.job_plan import Region, plan_of
from jobmanager.core.snapshots.storage_uri import UnsupportedStorage, local_path
from jobmanager.files.resolved_places import file_fault
from jobmanager.protocol.inspection import AdoptCheckpoint, Adopted
from taskrunner.core import adoptability, spark_messages
from taskrunner.core.adoptability import FoundCheckpoint
from taskrunner.inspector.scratch import scratch_in
from taskrunner.sinks.outputs import place_of
from taskrunner.snapshots import empty_batches
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.foreign import (
    ROCKSDB,
    Foreign,
    ForeignCheckpointRefused,
    copy_foreign,
    write_commit,
)
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots, StateMismatch
from taskrunner.snapshots.spark_log import UnreadableSparkLog
from taskrunner.spark.compile.compiler import InvalidVertex
from taskrunner.spark.run import trial_run
from taskrunner.spark.run.job_paths import JobPaths, rules_of
from taskrunner.spark.session.session import Session
from taskrunner.spark.session.shipped_artifacts import shipped
from taskrunner.spark.state.state_reader import states_of
from taskrunner.spark.state.state_rewriter import rewrite

_CHECKPOINT = CheckpointNumber(1)
_ATTEMPT = AttemptNumber(1)


class AdoptionDesk:
    def __init__(self, spark: Session, home: Path) -> None:
        self._spark = spark
        self._home = home

    def adopt(self, asked: AdoptCheckpoint) -> Adopted:
        """Adopts the checkpoint. Raises `ForeignCheckpointRefused`, `InvalidJobGraph`."""
        graph = graph_document.parse(asked.graph)
        region = _only_region(graph, asked.parallelism)
        storage = local_path(asked.storage) if asked.storage else None
        if storage is not None:
            shipped.become(self._spark, storage, graph.artifacts)
        with scratch_in(self._home, self._spark) as scratch:
            rules = rules_of(asked.allowed_paths, asked.data_root)
            data_root = local_path(asked.data_root)
            places = JobPaths(JobLayout(scratch / "job"), data_root, storage, rules)
            try:
                source = _path(asked.path)
                if rules is not None and (fault := file_fault(rules.snapshots, source)):
                    raise ForeignCheckpointRefused(fault)
                foreign = copy_foreign(source, scratch / "foreign")
                self._check(foreign, graph, region, places)
                ours = self._converted(foreign, scratch / "ours", asked.parallelism)
                self._try(ours, graph, region, asked.parallelism, places)
                self._save(ours, graph, region, asked, places)
            except (UnreadableSparkLog, StateMismatch) as error:
                raise ForeignCheckpointRefused(str(error)) from error
            return Adopted(
                batch=foreign.batch,
                provider=foreign.provider,
                was_rewritten=ours != foreign.directory,
                partitions=foreign.partitions,
            )

    def _check(self, foreign: Foreign, graph: JobGraph, region: Region, places: JobPaths) -> None:
        # a vertex for each possible operator: only the operators' names are needed here
        stand_ins = tuple(VertexId(str(number)) for number in foreign.operators)
        operators: dict[int, str] = {}
        if foreign.has_state:
            states = states_of(self._spark, foreign.directory, stand_ins)
            operators = {one.operator: one.operator_name for one in states}
        found = FoundCheckpoint(
            offsets=foreign.offsets.offsets,
            operators=[operators.get(number, "unknown") for number in foreign.operators],
            files=foreign.files_read(),
        )
        directories = {
            vertex.id: place_of(vertex.connector.path, places.resolve)
            for vertex in graph.vertices
            if isinstance(vertex, Source) and isinstance(vertex.connector, FilesSource)
        }
        objected = adoptability.objections(found, graph, VertexId(region.id), directories)
        if objected:
            raise ForeignCheckpointRefused("; ".join(objected))

    def _converted(self, foreign: Foreign, target: Path, parallelism: int) -> Path:
        """A directory in Headgate's form: the copy itself, if it already has that form."""
        if not foreign.has_state:
            if not foreign.has_state_ids:
                write_commit(foreign.directory, foreign.batch, foreign.watermark_ms, {})
            return foreign.directory
        fits = foreign.partitions == parallelism and foreign.provider == ROCKSDB
        if fits and foreign.has_state_ids:
            return foreign.directory
        if obstacle := foreign.rewrite_obstacle:
            raise ForeignCheckpointRefused(obstacle)
        rewrite(self._spark, foreign, target, parallelism)
        return target

    def _try(
        self, ours: Path, graph: JobGraph, region: Region, parallelism: int, places: JobPaths
    ) -> None:
        """Tries whether Spark continues from the directory with the graph."""
        trial = ours.with_name("trial")
        shutil.copytree(ours, trial, copy_function=os.link)
        empty_batches.repeat_offsets(trial)
        session = trial_run.session_for(
            self._spark, graph, parallelism, restricts_paths=places.rules is not None
        )
        try:
            rows = trial_run.rows_of(session, graph, parallelism, places, region)
            trial_run.run_one_batch(region, rows, trial)
        except InvalidVertex as error:
            raise ForeignCheckpointRefused(spark_messages.telling(str(error))) from error
        except Exception as error:
            told = spark_messages.telling(str(error)) or type(error).__name__
            raise ForeignCheckpointRefused(
                f"Spark does not go on from it with this graph: {told}"
            ) from error

    def _save(
        self, ours: Path, graph: JobGraph, region: Region, asked: AdoptCheckpoint, places: JobPaths
    ) -> None:
        # The manifest needs a job id, and the query had none: a new one, which no job has.
        job = JobId(uuid4())
        subject = AttemptContext(
            job, _ATTEMPT, graph, asked.parallelism, self._spark.version, asked.graph
        )
        fence = Fence(places.layout, _ATTEMPT)
        snapshots = Snapshots(subject, places.layout, fence, places.rules)
        snapshots.take_savepoint(
            _CHECKPOINT, {region.id: ours}, datetime.now(UTC), asked.savepoint, asked.target
        )


def _only_region(graph: JobGraph, parallelism: int) -> Region:
    if graph.mode is Mode.BATCH:
        raise ForeignCheckpointRefused(
            "a batch job does not go on from a checkpoint: it starts over"
        )
    regions = plan_of(graph, parallelism).regions
    if len(regions) != 1:
        queries = ", ".join(region.id for region in regions)
        raise ForeignCheckpointRefused(
            f"a Spark checkpoint is of one query, the graph has {len(regions)} "
            f"({queries}): adopt each with a graph of its own"
        )
    return regions[0]


def _path(text: str) -> Path:
    try:
        return local_path(text)
    except (UnsupportedStorage, ValueError) as error:
        raise ForeignCheckpointRefused(str(error)) from error
