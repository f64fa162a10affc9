"""Connected components, by a delta iteration. The direction of edges does not matter.

A vertex's component is the smallest id that has reached it. Whenever that of a vertex changes,
it tells its neighbours; the vertex it had as its component so far, which so learns of a smaller
one beyond its own; and all vertices that have it as their component. The second and third let
an id skip whole components in a round, so that a chain of n vertices takes about log n rounds
where telling neighbours alone takes n.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from taskrunner.spark.compile.graphs.network import Network
from taskrunner.spark.compile.loops import Keep, delta_rounds

_MOST = 2**31 - 1
"""It ends by itself: components only ever get smaller."""


def connected_components(network: Network) -> DataFrame:
    """`id`, `component`: the smallest id in it."""
    [neighbours] = network.loops.reused([network.neighbours().select("src", "dst").distinct()])
    own = sql.col("id").alias("component")
    solution = network.vertices.select("id", own)
    workset = network.vertices.select("id", own, sql.col("id").alias("previous"))

    def advance(known: DataFrame, changed: DataFrame, keep: Keep) -> tuple[DataFrame, DataFrame]:
        from_changed = changed.selectExpr("id AS src", "component")
        to_neighbours = from_changed.join(neighbours, "src").selectExpr("dst AS id", "component")
        to_previous = changed.selectExpr("previous AS id", "component")
        news = changed.selectExpr("id AS component", "component AS smaller")
        to_members = known.join(news, "component").selectExpr("id", "smaller AS component")
        least = (
            to_neighbours.union(to_previous)
            .union(to_members)
            .groupBy("id")
            .agg(sql.min("component").alias("least"))
        )
        following = keep(
            known.join(least, "id")
            .where("least < component")
            .select(
                "id", sql.col("least").alias("component"), sql.col("component").alias("previous")
            )
        )
        return following.select("id", "component"), following

    return delta_rounds(network.loops, network.name, solution, workset, ["id"], advance, _MOST)
