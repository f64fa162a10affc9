"""`join` as a DataFrame."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.inputs import Ship
from jobmanager.core.graph.joins import ONLY_LEFT, Join, on_both_sides
from jobmanager.core.ids import VertexId
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.core.state_view import HIDDEN
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.compile.frames import is_in, naming, need_columns
from taskrunner.spark.compile.time_columns import time_columns, which_time

_SPARK_TYPES = {
    "inner": "inner",
    "left": "left_outer",
    "right": "right_outer",
    "full": "full_outer",
    "left_semi": "left_semi",
    "left_anti": "left_anti",
}
_HINTS: Mapping[Ship, str] = {Ship.BROADCAST: "broadcast", Ship.HASH: "merge"}


def _compile(vertex: Join, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    """The `on` columns once, then the rest of the left, then of the right."""
    left, right = inputs
    need_columns(vertex.id, "on", vertex.on, left, f"of {vertex.left!r}: ")
    need_columns(vertex.id, "on", vertex.on, right, f"of {vertex.right!r}: ")
    if vertex.type not in ONLY_LEFT:
        _check_names(vertex, left, right)
    condition = _time_bound(vertex, left, right)
    # the names of `on` are on both sides: the right ones are renamed meanwhile
    hidden = {name: f"{HIDDEN}{at}" for at, name in enumerate(vertex.on)}
    sides = (
        left.alias(vertex.left),
        _hinted(vertex, right.withColumnsRenamed(hidden)).alias(vertex.right),
    )
    for name, other in hidden.items():
        mine, theirs = _of(vertex.left, name), _of(vertex.right, other)
        condition.append(mine == theirs)
        if vertex.type == "full":
            # unlike other stream joins, this one treats two nulls as equal keys (Spark 4.3)
            condition.append(sql.coalesce(mine, theirs).isNotNull())
    if vertex.where is not None:
        with naming(vertex.id, "where"):
            condition.append(sql.expr(vertex.where))
    whole = condition[0]
    for one in condition[1:]:
        whole = whole & one
    with naming(vertex.id, "where" if vertex.where else "on"):
        joined = _hinted_left(vertex, sides[0]).join(sides[1], whole, _SPARK_TYPES[vertex.type])
    return joined.select(*_results(vertex, hidden, left, right))


def _results(
    vertex: Join, hidden: Mapping[str, str], left: DataFrame, right: DataFrame
) -> list[Column]:
    own = [_of(vertex.left, name) for name in left.columns if not is_in(name, vertex.on)]
    if vertex.type in ONLY_LEFT:
        return [*(_of(vertex.left, name) for name in vertex.on), *own]
    keys = []
    for name, other in hidden.items():
        mine, theirs = _of(vertex.left, name), _of(vertex.right, other)
        match vertex.type:
            case "right":
                keys.append(theirs.alias(name))
            case "full":
                keys.append(sql.coalesce(mine, theirs).alias(name))
            case _:
                keys.append(mine)
    rest = [_of(vertex.right, name) for name in right.columns if not is_in(name, vertex.on)]
    return [*keys, *own, *rest]


def _time_bound(vertex: Join, left: DataFrame, right: DataFrame) -> list[Column]:
    if vertex.within is None:
        return []
    found = []
    for name, rows in ((vertex.left, left), (vertex.right, right)):
        times = time_columns(rows)
        if len(times) != 1:
            raise InvalidVertex(vertex.id, f"of {name!r}: {which_time(times)}", "within")
        hidden = is_in(times[0], vertex.on) and name == vertex.right
        at = [one.lower() for one in vertex.on].index(times[0].lower()) if hidden else 0
        found.append(_of(name, f"{HIDDEN}{at}" if hidden else times[0]))
    mine, theirs = found
    # a literal: Spark clears state by this condition, and understands only literals
    bound = sql.expr(f"INTERVAL {milliseconds(vertex.within)} MILLISECONDS")
    return [mine >= theirs - bound, mine <= theirs + bound]


def _hinted(vertex: Join, right: DataFrame) -> DataFrame:
    hint = _hint(vertex, 1)
    return right.hint(hint) if hint else right


def _hinted_left(vertex: Join, left: DataFrame) -> DataFrame:
    hint = _hint(vertex, 0)
    return left.hint(hint) if hint else left


def _hint(vertex: Join, position: int) -> str | None:
    """The join hint for the edge's ship strategy. Two streams can be joined in one way only."""
    one = vertex.inputs[position]
    if vertex.static is None and one.ship is None:
        return None
    if vertex.static is not None and one.vertex != vertex.static:
        return None
    return _HINTS.get(vertex.ship_of(one))


def _check_names(vertex: Join, left: DataFrame, right: DataFrame) -> None:
    for name in left.columns:
        if not is_in(name, vertex.on) and is_in(name, right.columns):
            raise InvalidVertex(vertex.id, on_both_sides(name, vertex.left, vertex.right), "inputs")


def _of(side: VertexId, name: str) -> Column:
    return sql.col(f"`{side}`.`{name.replace('`', '``')}`")


COMPILERS = (OperatorCompiler(Join, _compile),)
