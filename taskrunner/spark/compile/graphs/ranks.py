"""PageRank, with networkx's rules: a vertex without outgoing edges gives its rank to all vertices
equally, and the loop ends when the ranks change by less than `tolerance` on average.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.graph.graph_algorithms import PageRank
from taskrunner.spark.compile.graphs.network import Network
from taskrunner.spark.compile.loops import Frames, Judge, Keep, RoundVerdict


def page_rank(network: Network, asked: PageRank) -> DataFrame:
    """`id`, `rank`. The ranks add up to 1."""
    count = network.count() or 1
    weights = network.edges.groupBy("src").agg(sql.sum("weight").alias("total"))
    [shares] = network.loops.reused(
        [
            network.edges.join(weights.where("total > 0"), "src")
            .groupBy("src", "dst")
            .agg((sql.sum("weight") / sql.first("total")).alias("share"))
        ]
    )
    ends = weights.select(sql.col("src").alias("id"), "total")
    [start] = network.loops.reused(
        [
            network.vertices.select("id")
            .join(ends, "id", "left")
            .select(
                "id",
                (sql.coalesce("total", sql.lit(0.0)) == 0).alias("is_end"),
                sql.lit(1.0 / count).alias("rank"),
                sql.lit(0.0).alias("change"),
            )
        ]
    )
    damping = sql.lit(asked.damping)

    def step(state: Frames, keep: Keep) -> tuple[Frames, Judge]:
        [ranks] = state
        lost = ranks.agg(
            sql.coalesce(sql.sum(sql.when(sql.col("is_end"), sql.col("rank"))), sql.lit(0.0)).alias(
                "lost"
            )
        )
        received = (
            ranks.select(sql.col("id").alias("src"), "rank")
            .join(shares, "src")
            .groupBy(sql.col("dst").alias("id"))
            .agg(sql.sum(sql.col("rank") * sql.col("share")).alias("received"))
        )
        every = (1 - damping) / count + damping * sql.col("lost") / count
        following = every + damping * sql.coalesce("received", sql.lit(0.0))
        rows = keep(
            ranks.join(received, "id", "left")
            .crossJoin(sql.broadcast(lost))
            .select(
                "id",
                "is_end",
                following.alias("rank"),
                sql.abs(following - sql.col("rank")).alias("change"),
            )
        )

        def judge() -> RoundVerdict:
            found = rows.agg(sql.count(sql.lit(1)), sql.sum("change")).first()
            assert found is not None
            return RoundVerdict(found[0], (found[1] or 0.0) < count * asked.tolerance)

        return (rows,), judge

    [ranks] = network.loops.rounds(network.name, (start,), step, asked.max_iterations)
    return ranks.select("id", "rank")
