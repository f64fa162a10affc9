"""flat_map, join and distinct as DataFrames."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.window import Window as Over

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.column_checks import twice
from jobmanager.core.graph.inputs import Ship
from jobmanager.core.graph.relational_vertices import ONLY_LEFT, Distinct, FlatMap, Join
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.job_plan import ship_of
from taskrunner.core.state_view import HIDDEN
from taskrunner.spark.compile.frames import column, naming
from taskrunner.spark.compile.invalid_vertex import InvalidVertex

_SPARK_TYPES = {
    "inner": "inner",
    "left": "left_outer",
    "right": "right_outer",
    "full": "full_outer",
    "left_semi": "left_semi",
    "left_anti": "left_anti",
}
_HINTS: Mapping[Ship, str] = {Ship.BROADCAST: "broadcast", Ship.HASH: "merge"}
TIME = "headgate.time"
"""Marks the time column in a batch, as Spark does in a stream."""
_DELAY = "spark.watermarkDelayMs"
_FIRST = "__headgate_first"


def flat_map(vertex: FlatMap, rows: DataFrame) -> DataFrame:
    kept = rows.columns if vertex.keep is None else vertex.keep
    clash = [name for name in vertex.names if name.lower() in {one.lower() for one in kept}]
    if clash:
        raise InvalidVertex(vertex.id, f"column {clash[0]!r} is there already", "as")
    _need(vertex.id, "keep", tuple(kept), rows)
    with naming(vertex.id, "explode"):
        exploded = sql.explode(sql.expr(vertex.explode)).alias(*vertex.names)
        return rows.select(*(column(name) for name in kept), exploded)


def distinct(vertex: Distinct, rows: DataFrame) -> DataFrame:
    """The first row of each key: in a stream that comes, in a batch by time where there is one."""
    _need(vertex.id, "key", vertex.key, rows)
    times = time_columns(rows)
    key = list(vertex.key)
    if not rows.isStreaming:
        if len(times) != 1:
            return rows.dropDuplicates(key)
        order = Over.partitionBy(*(column(name) for name in key)).orderBy(column(times[0]))
        numbered = rows.withColumn(_FIRST, sql.row_number().over(order))
        return numbered.where(column(_FIRST) == 1).drop(_FIRST)
    if vertex.within is None:
        return rows.dropDuplicates(key)
    if len(times) != 1:
        raise InvalidVertex(vertex.id, _which_time(times), "within")
    # Spark remembers a key for the delay that is noted with its time column: ours, meanwhile
    delay = rows.schema[times[0]].metadata[_DELAY]
    remembering = _with_delay(rows, times[0], milliseconds(vertex.within))
    return _with_delay(remembering.dropDuplicatesWithinWatermark(key), times[0], delay)


def join(vertex: Join, left: DataFrame, right: DataFrame) -> DataFrame:
    """The `on` columns once, then the rest of the left, then of the right."""
    _need(vertex.id, "on", vertex.on, left, f"of {vertex.left!r}: ")
    _need(vertex.id, "on", vertex.on, right, f"of {vertex.right!r}: ")
    if vertex.type not in ONLY_LEFT:
        _check_names(vertex, left, right)
    condition = _time_bound(vertex, left, right)
    # the names of `on` are on both sides: those of the right are hidden meanwhile
    hidden = {name: f"{HIDDEN}{at}" for at, name in enumerate(vertex.on)}
    sides = (
        left.alias(vertex.left),
        _hinted(vertex, right.withColumnsRenamed(hidden)).alias(vertex.right),
    )
    for name, other in hidden.items():
        mine, theirs = _of(vertex.left, name), _of(vertex.right, other)
        condition.append(mine == theirs)
        if vertex.type == "full":
            # of all joins of streams this one takes two nulls for the same key (Spark 4.3)
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
    own = [_of(vertex.left, name) for name in left.columns if not _is_in(name, vertex.on)]
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
    rest = [_of(vertex.right, name) for name in right.columns if not _is_in(name, vertex.on)]
    return [*keys, *own, *rest]


def time_columns(rows: DataFrame) -> list[str]:
    """The columns that carry a watermark; in a batch those that would."""
    return [
        one.name for one in rows.schema.fields if _DELAY in one.metadata or TIME in one.metadata
    ]


def _time_bound(vertex: Join, left: DataFrame, right: DataFrame) -> list[Column]:
    if vertex.within is None:
        return []
    found = []
    for name, rows in ((vertex.left, left), (vertex.right, right)):
        times = time_columns(rows)
        if len(times) != 1:
            raise InvalidVertex(vertex.id, f"of {name!r}: {_which_time(times)}", "within")
        hidden = _is_in(times[0], vertex.on) and name == vertex.right
        at = [one.lower() for one in vertex.on].index(times[0].lower()) if hidden else 0
        found.append(_of(name, f"{HIDDEN}{at}" if hidden else times[0]))
    mine, theirs = found
    # a literal: Spark clears state by it, and understands nothing else
    bound = sql.expr(f"INTERVAL {milliseconds(vertex.within)} MILLISECONDS")
    return [mine >= theirs - bound, mine <= theirs + bound]


def _hinted(vertex: Join, right: DataFrame) -> DataFrame:
    hint = _hint(vertex, 1)
    return right.hint(hint) if hint else right


def _hinted_left(vertex: Join, left: DataFrame) -> DataFrame:
    hint = _hint(vertex, 0)
    return left.hint(hint) if hint else left


def _hint(vertex: Join, position: int) -> str | None:
    """What the edge says of how Spark should join. Of two streams there is one way only."""
    one = vertex.inputs[position]
    if vertex.static is None and one.ship is None:
        return None
    if vertex.static is not None and one.vertex != vertex.static:
        return None
    return _HINTS.get(ship_of(vertex, one))


def _check_names(vertex: Join, left: DataFrame, right: DataFrame) -> None:
    for name in left.columns:
        if not _is_in(name, vertex.on) and _is_in(name, right.columns):
            raise InvalidVertex(vertex.id, twice(name, vertex.left, vertex.right), "inputs")


def _need(
    vertex: VertexId, field: str, names: tuple[str, ...], rows: DataFrame, of: str = ""
) -> None:
    missing = [name for name in names if not _is_in(name, rows.columns)]
    if missing:
        message = f"{of}there is no column {', '.join(missing)}, only {rows.columns}"
        raise InvalidVertex(vertex, message, field)


def _which_time(times: list[str]) -> str:
    found = ", ".join(times) or "none"
    return f"one column with a watermark is needed, and there is {found}"


def _with_delay(rows: DataFrame, time: str, delay_ms: int) -> DataFrame:
    metadata = {**rows.schema[time].metadata, _DELAY: delay_ms}
    return rows.withMetadata(time, metadata)


def _of(side: VertexId, name: str) -> Column:
    return sql.col(f"`{side}`.`{name.replace('`', '``')}`")


def _is_in(name: str, columns: list[str] | tuple[str, ...]) -> bool:
    return name.lower() in {one.lower() for one in columns}
