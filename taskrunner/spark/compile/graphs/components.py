"""Connected components, by a delta iteration. The direction of edges does not matter.

A vertex's component is the smallest id that has reached it. Whenever a vertex's component changes,
the vertex sends the new one to its neighbours, to the vertex that was its component so far, and to
all vertices that have it as their component. The second and third message let an id skip whole
components in a round, so that a chain of n vertices takes about log n rounds; with messages to
neighbours alone it would take n.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from taskrunner.spark.compile.graphs.network import Network
from taskrunner.spark.compile.loops import Keep, delta_rounds

_MOST = 2**31 - 1
"""No limit is needed: the loop ends by itself, because components only get smaller."""


def connected_components(network: Network) -> DataFrame:
    """`id`, `component`: the smallest id in the component."""
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
