"""The operators `iterate` and `delta_iterate`: a body of vertices as the step of a loop."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from jobmanager.core.graph.iterations import DeltaIterate, Iterate
from jobmanager.core.ids import VertexId
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.compile.loops import Frames, Judge, Keep, RoundVerdict, delta_rounds
from taskrunner.spark.session.column_names import column, quoted


def _iterate(vertex: Iterate, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    vertex, body, loops = context.under_whole_name(vertex), context.body(vertex), context.loops
    start, *others = loops.reused(inputs)

    def step(state: Frames, keep: Keep) -> tuple[Frames, Judge]:
        rows = body([*state, *others])(vertex.result)
        rows = keep(_fitted(vertex.id, vertex.result, rows, start.schema))
        return (rows,), _judging(rows, vertex.until)

    return loops.rounds(vertex.id, (start,), step, vertex.max_iterations)[0]


def _delta_iterate(
    vertex: DeltaIterate, inputs: Sequence[DataFrame], context: CompileContext
) -> DataFrame:
    vertex, body, loops = context.under_whole_name(vertex), context.body(vertex), context.loops
    solution, workset, *others = loops.reused(inputs)
    for name in vertex.key:
        if name not in solution.columns:
            raise InvalidVertex(
                vertex.id,
                f"the solution set has no column {name!r}, only {solution.columns}",
                "key",
            )
    distinct = ", ".join(quoted(name) for name in vertex.key)

    def advance(known: DataFrame, todo: DataFrame, keep: Keep) -> tuple[DataFrame, DataFrame]:
        rows_of = body([known, todo, *others])
        delta = _fitted(vertex.id, vertex.delta, rows_of(vertex.delta), solution.schema)
        following = _fitted(vertex.id, vertex.workset, rows_of(vertex.workset), workset.schema)
        return keep(delta), keep(following)

    def judge(delta: DataFrame) -> bool:
        until = f"coalesce({vertex.until}, false)" if vertex.until else "false"
        found = delta.selectExpr(
            "count(*) AS rows", f"count(DISTINCT struct({distinct})) AS keys", f"{until} AS is_last"
        ).first()
        assert found is not None
        if found["rows"] != found["keys"]:
            raise InvalidVertex(
                vertex.id,
                f"{vertex.delta} gave {found['rows']} rows for {found['keys']} keys: "
                "combine them in the body, a key has one row in the solution set",
                "delta",
            )
        return bool(found["is_last"])

    _judging(solution, vertex.until)  # for Spark to analyse
    return delta_rounds(
        loops, vertex.id, solution, workset, vertex.key, advance, vertex.max_iterations, judge
    )


def _judging(rows: DataFrame, until: str | None) -> Judge:
    is_last = sql.expr(f"coalesce({until}, false)") if until else sql.lit(False)
    found = rows.agg(sql.count(sql.lit(1)).alias("rows"), is_last.alias("last"))

    def judge() -> RoundVerdict:
        row = found.first()
        assert row is not None
        return RoundVerdict(row["rows"], bool(row["last"]))

    return judge


def _fitted(loop: VertexId, inner: VertexId, rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows with the columns in the order of the previous round. Raises `InvalidVertex`."""
    wanted = {field.name: field.dataType.simpleString() for field in schema}
    given = {field.name: field.dataType.simpleString() for field in rows.schema}
    faults = [f"{name} is missing" for name in wanted if name not in given]
    faults += [f"{name} is not in the input" for name in given if name not in wanted]
    faults += [
        f"{name} is {given[name].upper()} and was {kind.upper()}: cast it"
        for name, kind in wanted.items()
        if given.get(name, kind) != kind
    ]
    if faults:
        raise InvalidVertex(
            VertexId(f"{loop}/{inner}"),
            f"the result of a round must have the columns of its input: {', '.join(faults)}",
        )
    return rows.select(*(column(name) for name in wanted))


COMPILERS = (
    OperatorCompiler(Iterate, _iterate),
    OperatorCompiler(DeltaIterate, _delta_iterate),
)
