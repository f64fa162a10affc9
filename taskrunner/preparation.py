"""Everything that an attempt does before its queries start: fence, restore, Spark, compile."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from jobmanager.core.errors import InvalidJobGraph, PathNotAllowed
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.paths.location import Location
from jobmanager.core.plan.job_plan import plan_of
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.files.resolved_places import graph_faults, place_fault
from jobmanager.protocol.messages import Run
from taskrunner.barriers import BarrierThread, SnapshotSources
from taskrunner.secret_lookup import SecretLookup
from taskrunner.sinks.output_files import LOCAL, FilesOf, OutputFiles, Place
from taskrunner.snapshots import durable
from taskrunner.snapshots.clone import Clones, Past, read_manifest
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import JobLayout, layout_of
from taskrunner.snapshots.restore_source import open_restore_source, read_lineage, write_lineage
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from taskrunner.spark.connectors.hadoop_files import files_of
from taskrunner.spark.connectors.registry import lost_batches
from taskrunner.spark.connectors.writing import OutputPlaces
from taskrunner.spark.run.job import SPARK_VERSION, SparkJob, sinks_at
from taskrunner.spark.run.job_paths import JobPaths, rules_of
from taskrunner.spark.run.real_time_session import open_with_slots
from taskrunner.spark.run.region_query import QueryPhase, RegionQuery
from taskrunner.spark.session import connector_jars
from taskrunner.spark.session.session import WarmSession, settings
from taskrunner.spark.session.shipped_artifacts import shipped


@dataclass(frozen=True, slots=True)
class Preparation:
    """Prepares one attempt."""

    job: JobId
    attempt: AttemptNumber
    order: Run
    session: WarmSession
    barriers: BarrierThread
    """Gets the sources of snapshots."""
    check_fence_time: Callable[[], None] = lambda: None
    """Asked before each batch that may go to a sink that cannot be fenced."""

    @property
    def layout(self) -> JobLayout:
        """The job's directory. Raises an error if this kind of storage is not supported."""
        return layout_of(self.order.storage, self.job, self.order.checkpoints)

    def mark_drained(self, region: RegionId, batch: int) -> None:
        """Records durably after which batch a region will be drained."""
        durable.write(self.layout.drain(self.attempt, region), f"{batch}\n")

    def prepare(self, check: Callable[[], None]) -> SparkJob:
        """Restores and compiles every region. `check` is called between two steps, and may raise an
        error to abandon the preparation.
        """
        order = self.order
        graph = graph_document.parse(order.graph)
        rules = rules_of(order.allowed_paths, order.data_root)
        if rules is not None and (faults := graph_faults(rules.graphs, graph)):
            raise InvalidJobGraph(faults)  # a link was made, or the roots were changed
        fence = Fence(self.layout, self.attempt)
        fence.raise_epoch()
        paths = JobPaths(self.layout, local_path(order.data_root), rules=rules)
        chosen = settings(
            name=graph.name,
            master=order.spark_master,
            parallelism=order.parallelism,
            extra=graph.spark,
            restricts_paths=rules is not None,
            jars=connector_jars.checked((one.path, one.sha256) for one in order.jars),
        )
        secret = SecretLookup(
            local_path(order.secrets_dir) if order.secrets_dir else None, order.secrets_command
        )
        past = self._past(graph, paths, partial(self._files_of, graph, chosen, secret))
        context = AttemptContext(
            self.job,
            self.attempt,
            graph,
            order.parallelism,
            SPARK_VERSION,
            order.graph,
            read_lineage(self.layout),
        )
        check()
        partitions: Mapping[VertexId, int] = {}
        if graph.execution.is_real_time:
            spark, partitions = open_with_slots(self.session, chosen, context, secret, check)
        else:
            spark = self.session.open(chosen)
        shipped.become(spark, local_path(order.storage), graph.artifacts)
        spark_job = SparkJob(
            spark,
            context,
            paths,
            fence,
            past,
            self.check_fence_time,
            secret,
            partitions,
            is_shared=self.session.is_shared,
        )
        spark_job.prepare(check)
        snapshots = Snapshots(context, self.layout, fence, rules)
        if past.completed is not None:
            snapshots.learn(past.completed)
        self.barriers.can_snapshot(_sources(context, snapshots, spark_job))
        return spark_job

    def _files_of(
        self, graph: JobGraph, chosen: Mapping[str, str], secret: SecretLookup, place: Place
    ) -> OutputFiles:
        """The operations on the directory of a files sink. Of a remote directory Spark has them."""
        if not isinstance(place, Location):
            return LOCAL
        return files_of(self.session.open(chosen), sinks_at(place, graph, secret))(place)

    def _past(self, graph: JobGraph, paths: JobPaths, files_of: FilesOf) -> Past:
        """The state that the attempt may start from. The restore point is opened only if a region
        has no newer state. Raises `PathNotAllowed`.
        """
        checkpoint, point = self.order.checkpoint, self.order.restore_point
        completed = (
            read_manifest(self.layout, CheckpointNumber(checkpoint.number)) if checkpoint else None
        )
        past = Past(completed, None, AttemptNumber(self.order.base_attempt))
        if point is None:
            return past
        clones = Clones(self.layout, self.attempt, past)
        places = OutputPlaces(self.job, self.layout, paths.resolve, files_of)
        lost = {one.id: lost_batches(graph, one.sinks, places) for one in plan_of(graph).regions}
        if not any(clones.wants_origin(region, batches) for region, batches in lost.items()):
            return past
        rules = paths.rules
        if rules is not None and (fault := place_fault(rules.snapshots, point.root)):
            raise PathNotAllowed(f"{point.name}: {fault}")
        origin = open_restore_source(point, graph, rules)
        write_lineage(self.layout, self.job, origin)
        return replace(past, origin=origin)


def _sources(context: AttemptContext, snapshots: Snapshots, spark_job: SparkJob) -> SnapshotSources:
    queries = {one.id: one for one in spark_job.regions if isinstance(one, RegionQuery)}
    running = (QueryPhase.RUNNING, QueryPhase.DRAINING)
    return SnapshotSources(
        context,
        snapshots,
        {region: query.log for region, query in queries.items()},
        lambda region: queries[region].phase in running,
        lambda region: queries[region].phase is QueryPhase.FINISHED,
        lambda region: queries[region].is_idle,
        spark_job.held_sinks,
        spark_job.checkpointed,
        lambda region, batch: queries[region].checkpointed(batch),
        spark_job.note_restore_point,
        spark_job.join_files,
    )
