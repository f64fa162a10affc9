"""The `sql` vertex: compiles its query, and checks it against the job's plan.

Only Spark understands a query completely, and it numbers the sources and the state of a stream by
their position in the query. The job's plan was made without Spark, from keywords. So a query that
Spark understands differently is refused here, before it runs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame, SparkSession

from jobmanager.core.graph.inputs import Ship
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sql_queries import Sql
from jobmanager.core.graph.sql_text import SqlState
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.regions import ancestors
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.compile.frames import naming

_views = Lock()
_STATEFUL = ("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct")
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_STATEMENTS = (f"{_PLANS}.Command", f"{_PLANS}.ParsedStatement")
_NO_QUERIES = ("Insert", "Compound", "UnresolvedExecuteImmediate")
_LIMITS = ("GlobalLimit", "LocalLimit", "Offset", "Tail")


def _compile(vertex: Sql, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    named = {
        one.vertex: rows.hint("broadcast") if vertex.ship_of(one) is Ship.BROADCAST else rows
        for one, rows in zip(vertex.inputs, inputs, strict=True)
    }
    with naming(vertex.id, "query"):
        rows = _run(inputs[0].sparkSession, vertex, named)
    if rows.isStreaming:
        _check(vertex, rows, _inputs_with_state(vertex, context.graph))
    return rows


def _inputs_with_state(vertex: Sql, graph: JobGraph) -> list[VertexId]:
    """The inputs that have stateful vertices upstream."""
    return [
        one.vertex
        for one in vertex.inputs
        if any(graph.vertex(behind).is_keyed for behind in ancestors(graph, one.vertex))
    ]


def _run(spark: SparkSession, vertex: Sql, inputs: Mapping[VertexId, DataFrame]) -> DataFrame:
    """Runs the query over temporary views, needed only until Spark has resolved the names."""
    _check_is_query(spark, vertex)
    with _views:
        for name, rows in inputs.items():
            rows.createOrReplaceTempView(name)
        try:
            return spark.sql(vertex.query)
        finally:
            for name in inputs:
                spark.catalog.dropTempView(name)


def _check_is_query(spark: SparkSession, vertex: Sql) -> None:
    """Spark carries out any other statement while it reads it, before a job runs: SET, INSERT
    OVERWRITE DIRECTORY, CREATE VIEW … USING.
    """
    session: Any = spark._jsparkSession
    plan = session.sessionState().sqlParser().parsePlan(vertex.query)
    gateway: Any = spark.sparkContext._gateway
    for node in _statements(plan):
        name = str(node.nodeName())
        if name.startswith(_NO_QUERIES) or any(
            is_instance_of(gateway, node, kind) for kind in _STATEMENTS
        ):
            raise InvalidVertex(
                vertex.id, f"{name} is no query: begin with SELECT, WITH, FROM or VALUES", "query"
            )


def _statements(plan: Any) -> Iterator[Any]:
    """The nodes in which a statement can be: the root, behind a WITH, and beside another one."""
    yield plan
    if str(plan.nodeName()) in ("UnresolvedWith", "Union"):
        for child in _children(plan):
            yield from _statements(child)


@dataclass(frozen=True, slots=True)
class _Use:
    """A position at which the query reads an input."""

    input: VertexId


def _check(vertex: Sql, rows: DataFrame, with_state: Collection[VertexId]) -> None:
    frame: Any = rows._jdf
    plan = frame.queryExecution().analyzed()
    inputs = [one.vertex for one in vertex.inputs]
    definitions = {int(one.id()): one for one in _named(plan, "CTERelationDef")}
    references = [int(one.cteId()) for one in _named(plan, "CTERelationRef")]
    if len(references) != len(set(references)):
        raise InvalidVertex(vertex.id, "in a stream a WITH query can be used once only", "query")
    in_log = [one for one in _steps(plan, inputs, {}) if isinstance(one, _Use)]
    _check_inputs(vertex, [one.input for one in in_log])
    _check_state(vertex, list(_steps(plan, inputs, definitions)), with_state)


def _check_inputs(vertex: Sql, used: Sequence[VertexId]) -> None:
    wanted = [one.vertex for one in vertex.streamed_inputs]
    streamed = [one for one in used if one in wanted]
    for name in wanted:
        if streamed.count(name) != 1:
            how = "twice" if name in streamed else "not at all"
            raise InvalidVertex(
                vertex.id, f"it reads the stream {name!r} {how}: a stream is read once", "query"
            )
    if streamed != wanted:
        raise InvalidVertex(
            vertex.id,
            f"the query reads its streams in another order: write {', '.join(streamed)}",
            "inputs",
        )


def _check_state(
    vertex: Sql, steps: Sequence["_Use | SqlState"], with_state: Collection[VertexId]
) -> None:
    states = [one for one in steps if isinstance(one, SqlState)]
    # the plan no longer shows that a grouping expression is a window
    planned = SqlState.AGGREGATE if vertex.state is SqlState.WINDOW else vertex.state
    if states != ([] if planned is SqlState.NONE else [planned]):
        found = ", ".join(states) or "none"
        raise InvalidVertex(
            vertex.id,
            f"it was taken to keep the state of {vertex.state}, and Spark keeps {found}: "
            "use aggregate, window, join and distinct vertices",
            "query",
        )
    if states:
        before = [one.input for one in steps[: steps.index(states[0])] if isinstance(one, _Use)]
        if any(one in with_state for one in before):
            raise InvalidVertex(
                vertex.id, "move the stateful part first, or into a vertex of its own", "query"
            )


def _steps(
    node: Any, inputs: Sequence[VertexId], definitions: Mapping[int, Any]
) -> Iterator["_Use | SqlState"]:
    """The steps of the plan from its root, left first. With `definitions`, WITH queries are
    inserted where they are used, as Spark does when it numbers state; without, as it numbers
    sources.
    """
    name = str(node.nodeName())
    if name == "View" and (read := VertexId(str(node.desc().identifier().table()))) in inputs:
        yield _Use(read)
        return
    if name == "CTERelationRef" and definitions:
        yield from _steps(definitions[int(node.cteId())].child(), inputs, definitions)
        return
    if name == "WithCTE" and definitions:
        yield from _steps(node.plan(), inputs, definitions)
        return
    if node.isStreaming():
        yield from _kept_by(node, name)
    for child in _children(node):
        yield from _steps(child, inputs, definitions)


def _kept_by(node: Any, name: str) -> Iterator[SqlState]:
    if name == "Aggregate":
        yield SqlState.TOTAL if node.groupingExpressions().isEmpty() else SqlState.AGGREGATE
    elif name in _STATEFUL or name in _LIMITS:
        yield SqlState.AGGREGATE
    elif name == "Join" and all(child.isStreaming() for child in _children(node)):
        yield SqlState.JOIN


def _named(node: Any, name: str) -> Iterator[Any]:
    if str(node.nodeName()) == name:
        yield node
    for child in _children(node):
        yield from _named(child, name)


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(at) for at in range(children.size())]


COMPILERS = (OperatorCompiler(Sql, _compile),)
