"""Shortest paths from one or more vertices along the direction of edges, by a delta iteration."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.graph.graph_algorithms import ShortestPaths
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.spark.compile.graphs.network import Network
from taskrunner.spark.compile.loops import Keep, delta_rounds

_MOST = 2**31 - 1
"""No limit is needed: the loop ends by itself, because no weight is below 0."""


def shortest_paths(network: Network, asked: ShortestPaths) -> DataFrame:
    """`id`, `distance`: from the nearest of the sources; NULL if there is no path."""
    kind = network.vertices.schema["id"].dataType
    is_source = sql.col("id").isin(*(sql.lit(one).cast(kind) for one in asked.sources))
    distance = sql.when(is_source, sql.lit(0.0)).alias("distance")
    solution = network.vertices.select("id", distance)
    workset = solution.where("distance = 0")
    _check_sources(network, asked, workset)

    def advance(known: DataFrame, changed: DataFrame, keep: Keep) -> tuple[DataFrame, DataFrame]:
        least = (
            changed.selectExpr("id AS src", "distance")
            .join(network.edges, "src")
            .groupBy(sql.col("dst").alias("id"))
            .agg(sql.min(sql.col("distance") + sql.col("weight")).alias("least"))
        )
        following = keep(
            known.join(least, "id")
            .where("distance IS NULL OR least < distance")
            .select("id", sql.col("least").alias("distance"))
        )
        return following, following

    return delta_rounds(network.loops, network.name, solution, workset, ["id"], advance, _MOST)


def _check_sources(network: Network, asked: ShortestPaths, found: DataFrame) -> None:
    known = network.loops.value(
        network.name, found.agg(sql.collect_set(sql.col("id").cast("string")))
    )
    missing = [one for one in asked.sources if known and str(one) not in known[0]]
    if missing:
        raise InvalidVertex(network.name, f"algorithm.sssp.from: there is no vertex {missing[0]!r}")
