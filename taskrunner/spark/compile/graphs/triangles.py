"""Counts the triangles of each vertex. Direction, repetition and self-loops do not count."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from taskrunner.spark.compile.graphs.network import Network


def triangles(network: Network) -> DataFrame:
    """`id`, `triangles`."""
    [neighbours] = network.loops.reused([network.neighbours().select("src", "dst").distinct()])
    degrees = neighbours.groupBy("src").agg(sql.count(sql.lit(1)).alias("degree"))
    ends = neighbours.join(degrees, "src").join(
        degrees.select(sql.col("src").alias("dst"), sql.col("degree").alias("other")), "dst"
    )
    # each edge once, from the vertex with fewer neighbours: then no vertex has very many
    # outgoing edges, and so few pairs of edges are tried in vain
    [ways] = network.loops.reused([ends.where("(degree, src) < (other, dst)").select("src", "dst")])
    first = ways.select(sql.col("src").alias("a"), sql.col("dst").alias("b"))
    second = ways.select(sql.col("src").alias("b"), sql.col("dst").alias("c"))
    third = ways.select(sql.col("src").alias("a"), sql.col("dst").alias("c"))
    found = first.join(second, "b").join(third, ["a", "c"])
    corners = found.select(sql.explode(sql.array("a", "b", "c")).alias("id"))
    counts = corners.groupBy("id").agg(sql.count(sql.lit(1)).alias("found"))
    return (
        network.vertices.select("id")
        .join(counts, "id", "left")
        .select("id", sql.coalesce("found", sql.lit(0).cast("bigint")).alias("triangles"))
    )
