"""Label propagation: in each round every vertex takes the label with the most weight among its
neighbours, the smallest of equals; edges count in both directions. All vertices change at once,
so two of them may swap their labels for ever: `max_iterations` ends the loop.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.graph.graph_algorithms import LabelPropagation
from taskrunner.spark.compile.graphs.network import Network
from taskrunner.spark.compile.loops import Frames, Judge, Keep, RoundVerdict


def label_propagation(network: Network, asked: LabelPropagation) -> DataFrame:
    """`id`, `label`: the id of one of the vertices of the same community."""
    [neighbours] = network.loops.reused([network.neighbours()])
    start = network.vertices.select(
        "id", sql.col("id").alias("label"), sql.lit(True).alias("is_changed")
    )

    def step(state: Frames, keep: Keep) -> tuple[Frames, Judge]:
        [labels] = state
        votes = (
            labels.selectExpr("id AS src", "label")
            .join(neighbours, "src")
            .groupBy("dst", "label")
            .agg(sql.sum("weight").alias("votes"))
        )
        first = sql.min(sql.struct(-sql.col("votes"), sql.col("label").alias("label")))
        elected = votes.groupBy(sql.col("dst").alias("id")).agg(first["label"].alias("elected"))
        following = sql.coalesce("elected", "label")
        rows = keep(
            labels.join(elected, "id", "left").select(
                "id",
                following.alias("label"),
                (following != sql.col("label")).alias("is_changed"),
            )
        )

        def judge() -> RoundVerdict:
            changed = rows.where("is_changed").count()
            return RoundVerdict(changed, changed == 0)

        return (rows,), judge

    [labels] = network.loops.rounds(network.name, (start,), step, asked.max_iterations)
    return labels.select("id", "label")
