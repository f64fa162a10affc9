"""Lets Spark analyse a job graph before it is accepted: every fault it finds, and its plans.

Each vertex is compiled by itself, so that a fault in one vertex does not hide another. A region
without faults is planned, and a streaming region is run for one batch without input: only then
does Spark report operations that are impossible in a stream.
"""

from pathlib import Path

from jobmanager.core.errors import Fault
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.ids import VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.job_plan import Region, in_order, plan_of
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.protocol.inspection import Analysed, AnalyseGraph, AnalysisFault, SparkPlan
from taskrunner.inspector.scratch import scratch_in
from taskrunner.snapshots import empty_batches
from taskrunner.snapshots.layout import JobLayout
from taskrunner.spark.compile.compiler import Compiler, InvalidVertex
from taskrunner.spark.run import trial_run
from taskrunner.spark.run.job_paths import JobPaths, rules_of
from taskrunner.spark.session.session import Session
from taskrunner.spark.session.shipped_artifacts import shipped


class AnalysisDesk:
    def __init__(self, spark: Session, home: Path) -> None:
        self._spark = spark
        self._home = home

    def analyse(self, asked: AnalyseGraph) -> Analysed:
        graph = graph_document.parse(asked.graph)
        with scratch_in(self._home, self._spark) as scratch:
            rules = rules_of(asked.allowed_paths, asked.data_root)
            session = trial_run.session_for(
                self._spark, graph, asked.parallelism, restricts_paths=rules is not None
            )
            storage = local_path(asked.storage) if asked.storage else None
            if storage is not None:
                shipped.become(session, storage, graph.artifacts)
            data_root = local_path(asked.data_root)
            places = JobPaths(JobLayout(scratch / "job"), data_root, storage, rules)
            compiler = trial_run.compiler_of(session, graph, asked.parallelism, places)
            faults = _faults(graph, compiler)
            blamed = {fault.vertex for fault in faults}
            plans = []
            for region in plan_of(graph, asked.parallelism).regions:
                if blamed.isdisjoint(region.vertices):
                    rows = compiler.rows_of(region)
                    plans.append(SparkPlan(region=region.id, text=trial_run.explained(rows)))
                    faults += _refusals(session, graph, region, rows, scratch)
        return Analysed(
            faults=[
                AnalysisFault(vertex=one.vertex, field=one.field, message=one.message)
                for one in faults
            ],
            plans=plans,
        )


def _faults(graph: JobGraph, compiler: Compiler) -> list[Fault]:
    found: list[Fault] = []
    broken: set[VertexId] = set()
    for vertex in in_order(graph):
        if any(one.vertex in broken for one in vertex.inputs):
            broken.add(vertex.id)
            continue
        try:
            compiler.check(vertex.id)
        except InvalidVertex as error:
            broken.add(vertex.id)
            found += error.faults
    return found


def _refusals(
    session: Session, graph: JobGraph, region: Region, rows: trial_run.Rows, scratch: Path
) -> list[Fault]:
    """Spark's objections to running the region as a stream."""
    if graph.mode is Mode.BATCH:
        return []
    directory = scratch / f"{region.id}-empty"
    sources = spark_order.sources(graph, VertexId(region.id))
    empty_batches.begin_with_nothing(directory, len(sources), trial_run.settings_for_life(session))
    refusal = trial_run.refusal_of(region, rows, directory)
    return [] if refusal is None else [Fault(region.id, "", refusal)]
