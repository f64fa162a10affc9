"""The graph that an algorithm runs on: its vertices and its edges, with fixed column names."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.graph.graph_algorithms import GraphAlgorithm
from jobmanager.core.ids import VertexId
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.spark.compile.loops import Loops
from taskrunner.spark.session.column_names import column

OURS = ("src", "dst", "weight")


@dataclass(frozen=True, slots=True)
class Network:
    name: VertexId
    """The operator, for messages and progress."""
    vertices: DataFrame
    """Each `id` once, and the other columns of the input with the vertices."""
    edges: DataFrame
    """`src`, `dst`, `weight`, and the other columns of the input with the edges."""
    loops: Loops

    def neighbours(self) -> DataFrame:
        """Each edge in both directions, without self-loops: `src`, `dst`, `weight`."""
        there = self.edges.where("src <> dst").select(*OURS)
        back = there.select(
            sql.col("dst").alias("src"), sql.col("src").alias("dst"), sql.col("weight")
        )
        return there.unionByName(back)

    def count(self) -> int:
        """The number of vertices; 0 if the graph is only analysed."""
        row = self.loops.value(self.name, self.vertices.agg(sql.count(sql.lit(1)).alias("n")))
        return int(row["n"]) if row else 0


def network(vertex: GraphAlgorithm, inputs: Sequence[DataFrame], loops: Loops) -> Network:
    frames = dict(zip((one.vertex for one in vertex.inputs), inputs, strict=True))
    edges = _edges(vertex, frames[vertex.edges])
    [edges] = loops.reused([edges])
    vertices = _vertices(vertex, edges, frames[vertex.vertices] if vertex.vertices else None)
    [vertices] = loops.reused([vertices])
    return Network(vertex.id, vertices, edges, loops)


def _edges(vertex: GraphAlgorithm, rows: DataFrame) -> DataFrame:
    named = {"src": vertex.src, "dst": vertex.dst}
    if vertex.weight is not None:
        named["weight"] = vertex.weight
    for field, name in named.items():
        if name not in rows.columns:
            raise InvalidVertex(
                vertex.id, f"the edges have no column {name!r}, only {rows.columns}", field
            )
    types = {end: rows.schema[named[end]].dataType.simpleString() for end in ("src", "dst")}
    if types["src"] != types["dst"]:
        raise InvalidVertex(
            vertex.id,
            f"{vertex.src} is {types['src'].upper()} and {vertex.dst} is "
            f"{types['dst'].upper()}: cast one, both are ids of vertices",
            "dst",
        )
    others = [name for name in rows.columns if name not in (*named.values(), *OURS)]
    weight = _weight(vertex.weight) if vertex.weight else sql.lit(1.0)
    selected = rows.select(
        column(vertex.src).alias("src"),
        column(vertex.dst).alias("dst"),
        weight.alias("weight"),
        *(column(name) for name in others),
    )
    return selected.where("src IS NOT NULL AND dst IS NOT NULL")


def _weight(name: str) -> Column:
    weight = column(name).cast("double")
    is_sound = weight.isNotNull() & (weight >= 0) & (weight < float("inf"))
    told = sql.concat(
        sql.lit(f"an edge has the {name} "),
        sql.coalesce(weight.cast("string"), sql.lit("NULL")),
        sql.lit(": it must be a number from 0"),
    )
    return sql.when(is_sound, weight).otherwise(sql.raise_error(told).cast("double"))


def _vertices(vertex: GraphAlgorithm, edges: DataFrame, listed: DataFrame | None) -> DataFrame:
    ends = edges.select(sql.col("src").alias("id")).union(edges.select("dst")).distinct()
    if listed is None:
        return ends
    if "id" not in listed.columns:
        raise InvalidVertex(
            vertex.id, f"they have no column 'id', only {listed.columns}", "vertices"
        )
    wanted, found = (frame.schema["id"].dataType.simpleString() for frame in (ends, listed))
    if wanted != found:
        raise InvalidVertex(
            vertex.id,
            f"id is {found.upper()} and {vertex.src} is {wanted.upper()}: cast one",
            "vertices",
        )
    known = listed.where("id IS NOT NULL").dropDuplicates(["id"])
    return known.join(ends, "id", "full_outer")
