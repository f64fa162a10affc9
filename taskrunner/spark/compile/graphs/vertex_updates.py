"""The vertex-centric loop: in each round every vertex sends messages along its edges, and computes
its new value from its own value and the received messages. It ends when no value changes.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.graph.graph_algorithms import VertexUpdate
from jobmanager.core.ids import VertexId
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.spark.compile.frames import naming
from taskrunner.spark.compile.graphs.network import Network
from taskrunner.spark.compile.loops import Frames, Judge, Keep, RoundVerdict
from taskrunner.spark.session.column_names import column

_DEGREES = ("out_degree", "in_degree")
_TAKEN = ("value", "message", "is_changed", *_DEGREES)


def vertex_update(network: Network, asked: VertexUpdate) -> DataFrame:
    """`id`, `value`."""
    _check_names(network)
    vertices = _with_degrees(network)
    with naming(network.name, "algorithm.vertex_update.initial"):
        start = vertices.select(
            "*", sql.expr(asked.initial).alias("value"), sql.lit(True).alias("is_changed")
        )
    [start] = network.loops.reused([start])
    attributes = [column(name) for name in vertices.columns]

    def step(state: Frames, keep: Keep) -> tuple[Frames, Judge]:
        [values] = state
        combined = _combined(network, asked, values)
        told = values.drop("is_changed").join(combined, "id", "left")
        with naming(network.name, "algorithm.vertex_update.update"):
            updated = told.select(*attributes, "value", sql.expr(asked.update).alias("next"))
        _check_type(network.name, values, updated)
        is_changed = ~sql.col("next").eqNullSafe(sql.col("value"))
        rows = keep(
            updated.select(
                *attributes,
                sql.col("next").alias("value"),
                is_changed.alias("is_changed"),
            )
        )

        def judge() -> RoundVerdict:
            changed = rows.where("is_changed").count()
            return RoundVerdict(changed, changed == 0)

        return (rows,), judge

    [values] = network.loops.rounds(network.name, (start,), step, asked.max_iterations)
    return values.select("id", "value")


def _combined(network: Network, asked: VertexUpdate, values: DataFrame) -> DataFrame:
    """`id`, `message`: the combined messages of each vertex that received any."""
    senders = values.select(sql.col("id").alias("src"), "value", *_DEGREES)
    with naming(network.name, "algorithm.vertex_update.message"):
        # Only vertices with an edge send. Spark would compute the message for others too, below the
        # join, where a division by the degree is an error.
        message = sql.when(sql.col("out_degree") > 0, sql.expr(asked.message))
        sent = network.edges.join(senders, "src").select(
            sql.col("dst").alias("id"), message.alias("message")
        )
    with naming(network.name, "algorithm.vertex_update.combine"):
        return (
            sent.where("message IS NOT NULL")
            .groupBy("id")
            .agg(sql.expr(asked.combine).alias("message"))
        )


def _with_degrees(network: Network) -> DataFrame:
    one = sql.count(sql.lit(1))
    out = network.edges.groupBy(sql.col("src").alias("id")).agg(one.alias("out"))
    into = network.edges.groupBy(sql.col("dst").alias("id")).agg(one.alias("into"))
    none = sql.lit(0).cast("bigint")
    return (
        network.vertices.join(out, "id", "left")
        .join(into, "id", "left")
        .select(
            *map(column, network.vertices.columns),
            sql.coalesce("out", none).alias("out_degree"),
            sql.coalesce("into", none).alias("in_degree"),
        )
    )


def _check_names(network: Network) -> None:
    for what, frame in (("vertices", network.vertices), ("edges", network.edges)):
        for name in frame.columns:
            if name in _TAKEN or (name == "id" and what == "edges"):
                raise InvalidVertex(
                    network.name,
                    f"{what}: {name!r} means something else in a vertex_update: rename the column",
                )


def _check_type(name: VertexId, values: DataFrame, updated: DataFrame) -> None:
    before = values.schema["value"].dataType.simpleString().upper()
    after = updated.schema["next"].dataType.simpleString().upper()
    if before != after:
        raise InvalidVertex(
            name,
            f"algorithm.vertex_update.update: gives {after}, and initial gave {before}: cast one",
        )
