"""Tries whether Spark continues from a snapshot with another job graph.

Each region is run for one batch without input: once on an empty directory, which shows what
state the graph keeps, and once on a copy of the snapshot's directory, where Spark checks the
state itself. Sources are not read, sinks get nothing, and neither the snapshot nor any directory
of a job is written to.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.job_plan import Region, plan_of
from jobmanager.core.snapshots.fit import drops_state
from jobmanager.core.snapshots.manifest import RegionManifest
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.protocol.inspection import (
    StateChange,
    StateSchema,
    Tried,
    TriedRegion,
    TryGraph,
)
from taskrunner import logs
from taskrunner.core import spark_messages
from taskrunner.inspector.scratch import scratch_in
from taskrunner.inspector.states import keyed_of
from taskrunner.snapshots import empty_batches
from taskrunner.snapshots.copies import Copies, Copy, UnreadableSnapshot
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.spark.compile.compiler import InvalidVertex
from taskrunner.spark.run import trial_run
from taskrunner.spark.run.job_paths import JobPaths, rules_of
from taskrunner.spark.session.session import Session
from taskrunner.spark.session.shipped_artifacts import shipped
from taskrunner.spark.state.state_reader import StateReader, states_of

log = logs.get("inspector")
Schemas = Mapping[tuple[str, str], StateSchema]
"""Vertex and state name to the schema of the state."""


class TrialDesk:
    def __init__(self, spark: Session, copies: Copies, home: Path) -> None:
        self._spark = spark
        self._copies = copies
        self._home = home

    def try_graph(self, asked: TryGraph) -> Tried:
        graph = graph_document.parse(asked.graph)
        if graph.mode is Mode.BATCH:
            raise UnreadableSnapshot("a batch job does not go on from a snapshot: it starts over")
        copy = self._copies.of(asked.place.root, asked.place.manifest)
        with scratch_in(self._home, self._spark) as scratch:
            rules = rules_of(asked.allowed_paths, asked.data_root)
            spark = trial_run.session_for(
                self._spark, graph, asked.parallelism, restricts_paths=rules is not None
            )
            storage = local_path(asked.storage) if asked.storage else None
            if storage is not None:
                shipped.become(spark, storage, graph.artifacts)
            layout, data_root = JobLayout(scratch / "job"), local_path(asked.data_root)
            places = JobPaths(layout, data_root, storage, rules)
            trial = _Trial(spark, graph, asked.parallelism, places, copy, scratch)
            regions = plan_of(graph, asked.parallelism).regions
            return Tried(regions=[trial.of(region) for region in regions])


@dataclass(frozen=True, slots=True)
class _Trial:
    """One graph tried on one snapshot."""

    spark: Session
    graph: JobGraph
    parallelism: int
    places: JobPaths
    """Rows of a `table` are put into a file of the job: here into one that nobody keeps."""
    copy: Copy
    scratch: Path

    def of(self, region: Region) -> TriedRegion:
        known = self.copy.manifest.regions.get(region.id)
        is_new = known is None or known.batch is None
        drops = known is not None and drops_state(known, self.graph, region.id)
        old = self._old_schemas(region.id, known) if known is not None and not is_new else {}
        new: Schemas = {}
        error: Exception | None = None
        try:
            new = self._planned(region, known if not is_new else None)
            if not is_new:
                self._continue(region, without_state=drops)
        except Exception as refused:
            log.info("graph_refused", region=region.id, reason=str(refused))
            error = refused
        return TriedRegion(
            region=region.id,
            is_new=is_new,
            drops_state=drops,
            accepted=error is None,
            error=_reason(error) if error else None,
            vertex=_blamed(error, old, new) if error else None,
            states=list(_changes(old, new)),
        )

    def _planned(self, region: Region, known: RegionManifest | None) -> Schemas:
        """The state that the graph keeps, as Spark plans it. Raises Spark's error if it refuses."""
        directory = self.scratch / f"{region.id}-empty"
        sources = spark_order.sources(self.graph, VertexId(region.id))
        if known is not None and known.batch is not None:
            logged = SparkLog(self.copy.region(region.id))
            settings = logged.offsets(known.batch).metadata.get("conf", {})
        else:
            settings = trial_run.settings_for_life(self.spark)
        empty_batches.begin_with_nothing(directory, len(sources), settings)
        trial_run.run_one_batch(region, self._rows(region), directory)
        keyed = spark_order.keyed(self.graph, VertexId(region.id))
        return self._schemas(directory, 0, keyed)

    def _continue(self, region: Region, *, without_state: bool) -> None:
        """Runs a batch on a copy of the snapshot. Raises Spark's error if it refuses."""
        directory = self.scratch / region.id
        shutil.copytree(self.copy.region(region.id), directory, copy_function=os.link)
        if without_state:
            shutil.rmtree(directory / "state")
        empty_batches.repeat_offsets(directory)
        trial_run.run_one_batch(region, self._rows(region), directory)

    def _rows(self, region: Region) -> trial_run.Rows:
        return trial_run.rows_of(self.spark, self.graph, self.parallelism, self.places, region)

    def _old_schemas(self, region: RegionId, known: RegionManifest) -> Schemas:
        assert known.batch is not None
        keyed = list(keyed_of(region, known, None))
        return self._schemas(self.copy.region(region), known.batch, keyed)

    def _schemas(self, directory: Path, batch: int, keyed: list[VertexId]) -> Schemas:
        if not keyed:
            return {}
        found: dict[tuple[str, str], StateSchema] = {}
        for state in states_of(self.spark, directory, tuple(keyed)):
            reader = StateReader(self.spark, directory, batch, state, None, state.partitions, 1)
            key, value = reader.schemas
            found[state.vertex, state.name] = StateSchema(key=key, value=value)
        return found


def _reason(error: Exception) -> str:
    return spark_messages.telling(str(error)) or type(error).__name__


def _blamed(error: Exception, old: Schemas, new: Schemas) -> str | None:
    """The vertex that the error is about; Spark's message does not name it."""
    if isinstance(error, InvalidVertex):
        return error.vertex
    changed = {vertex for vertex, name in old if old[vertex, name] != new.get((vertex, name))}
    suspects = changed or {vertex for vertex, _ in (*old, *new)}
    return suspects.pop() if len(suspects) == 1 else None


def _changes(old: Schemas, new: Schemas) -> Iterator[StateChange]:
    for vertex, name in dict.fromkeys((*old, *new)):
        yield StateChange(
            vertex=vertex, name=name, old=old.get((vertex, name)), new=new.get((vertex, name))
        )
