"""`graph` as a DataFrame: an algorithm of `taskrunner.spark.compile.graphs`."""

from collections.abc import Sequence
from typing import assert_never

from pyspark.sql import DataFrame

from jobmanager.core.graph.graph_algorithms import (
    ConnectedComponents,
    GraphAlgorithm,
    LabelPropagation,
    PageRank,
    ShortestPaths,
    Triangles,
    VertexUpdate,
)
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.compile.graphs.components import connected_components
from taskrunner.spark.compile.graphs.labels import label_propagation
from taskrunner.spark.compile.graphs.network import network
from taskrunner.spark.compile.graphs.paths import shortest_paths
from taskrunner.spark.compile.graphs.ranks import page_rank
from taskrunner.spark.compile.graphs.triangles import triangles
from taskrunner.spark.compile.graphs.vertex_updates import vertex_update
from taskrunner.spark.compile.loops import Loops


def graph(vertex: GraphAlgorithm, inputs: Sequence[DataFrame], loops: Loops) -> DataFrame:
    found = network(vertex, inputs, loops)
    match vertex.algorithm:
        case PageRank():
            return page_rank(found, vertex.algorithm)
        case ConnectedComponents():
            return connected_components(found)
        case ShortestPaths():
            return shortest_paths(found, vertex.algorithm)
        case LabelPropagation():
            return label_propagation(found, vertex.algorithm)
        case Triangles():
            return triangles(found)
        case VertexUpdate():
            return vertex_update(found, vertex.algorithm)
        case _:
            assert_never(vertex.algorithm)


def _compile(
    vertex: GraphAlgorithm, inputs: Sequence[DataFrame], context: CompileContext
) -> DataFrame:
    return graph(context.under_whole_name(vertex), inputs, context.loops)


COMPILERS = (OperatorCompiler(GraphAlgorithm, _compile),)
