"""Which task of the plan does the work of which stage of Spark.

Spark cuts a query into stages where rows are shuffled, and a job's plan is cut into tasks at the
same places, mostly. Both are trees that end in the query's last stage. Where the trees agree, in
the number of inputs and in the keyed vertices whose state a stage keeps, a stage is the work of one
task. Where they do not agree (Spark has left a shuffle out, or needs one more; two tasks run in one
stage, as the inputs of a union do), nobody can tell whose work a stage is, and its role has no
task.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from jobmanager.core.graph.inputs import Ship
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.job_plan import Plan, Region, Task

_SHUFFLES = (Ship.HASH, Ship.REBALANCE)


class NodeKind(StrEnum):
    SHUFFLE = "shuffle"
    ELSEWHERE = "elsewhere"
    """What is below runs in a job of its own (a broadcast), or only once (a reused shuffle)."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class SparkPlanNode:
    """A node of Spark's physical plan."""

    kind: NodeKind
    state_operator: int | None = None
    """Spark's number of a stateful operator."""
    inputs: tuple["SparkPlanNode", ...] = ()


@dataclass(frozen=True, slots=True)
class QueryStage:
    """What runs between shuffles, by the keyed vertices in it."""

    keyed: frozenset[VertexId]
    inputs: tuple["QueryStage", ...] = ()
    tasks: tuple[Task, ...] = field(default=(), compare=False)
    """Of a stage in the job's plan."""


@dataclass(frozen=True, slots=True)
class StageRole:
    """What a stage of Spark does."""

    task: Task | None
    """None: nobody can tell whose work it is."""
    reads_source: bool
    """Whether its rows come from sources, and not from a shuffle."""
    is_last: bool
    """Whether its rows go to the sink, and not to a shuffle."""


def roles(wanted: QueryStage, found: QueryStage) -> list[StageRole]:
    """Return the role of each stage of Spark, in the order in which Spark creates them: each after
    its inputs, the left input first. `wanted` is the last stage by the job's plan, `found` that of
    Spark.
    """
    return list(_roles(wanted, found, is_last=True))


def stages_of_region(graph: JobGraph, plan: Plan, region: Region) -> QueryStage:
    """Return the last stage of a region by the job's plan, with the stages before it."""
    task_of = {vertex: task for task in plan.tasks for vertex in task.vertices}

    def stage(last: VertexId) -> QueryStage:
        inside: list[VertexId] = []
        inputs: list[QueryStage] = []

        def visit(vertex_id: VertexId) -> None:
            inside.append(vertex_id)
            vertex = graph.vertex(vertex_id)
            for one in vertex.streamed_inputs:
                if vertex.ship_of(one) in _SHUFFLES:
                    inputs.append(stage(one.vertex))
                else:
                    visit(one.vertex)

        visit(last)
        keyed = frozenset(one for one in inside if graph.vertex(one).is_keyed)
        tasks = tuple({task_of[one].head: task_of[one] for one in inside}.values())
        return QueryStage(keyed, tuple(inputs), tasks)

    return stage(region.root)


def stages_of_spark(root: SparkPlanNode, keyed: Sequence[VertexId]) -> QueryStage:
    """Return the last stage of Spark's plan, with the stages before it. `keyed` names the vertex of
    each stateful operator, by Spark's number.
    """
    numbers: set[int] = set()
    inputs: list[QueryStage] = []

    def visit(node: SparkPlanNode) -> None:
        if node.kind is NodeKind.ELSEWHERE:
            return
        if node.kind is NodeKind.SHUFFLE:
            inputs.append(stages_of_spark(SparkPlanNode(NodeKind.OTHER, None, node.inputs), keyed))
            return
        if node.state_operator is not None:
            numbers.add(node.state_operator)
        for one in node.inputs:
            visit(one)

    visit(root)
    vertices = frozenset(keyed[one] for one in numbers if 0 <= one < len(keyed))
    return QueryStage(vertices, tuple(inputs))


def _roles(wanted: QueryStage | None, found: QueryStage, *, is_last: bool) -> Iterator[StageRole]:
    agrees = wanted is not None and wanted.keyed == found.keyed
    has_same_inputs = agrees and wanted is not None and len(wanted.inputs) == len(found.inputs)
    for number, one in enumerate(found.inputs):
        below = wanted.inputs[number] if has_same_inputs and wanted is not None else None
        yield from _roles(below, one, is_last=False)
    tasks = wanted.tasks if agrees and wanted is not None else ()
    is_known = len(tasks) == 1 and (has_same_inputs or bool(found.keyed))
    yield StageRole(
        task=tasks[0] if is_known else None,
        reads_source=not found.inputs,
        is_last=is_last,
    )
