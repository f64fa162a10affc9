"""The compilers of all operators, by the class of the vertex."""

from collections.abc import Mapping
from typing import Any

from jobmanager.core.graph.vertex import Vertex
from taskrunner.spark.compile import (
    aggregates,
    graph_algorithms,
    iterations,
    joins,
    ml,
    process_functions,
    projection,
    pyspark_functions,
    scripts,
    sinks,
    sources,
    sql_queries,
    windows,
)
from taskrunner.spark.compile.compile_context import OperatorCompiler

FAMILIES = (
    sources,
    projection,
    aggregates,
    windows,
    joins,
    sql_queries,
    process_functions,
    pyspark_functions,
    scripts,
    iterations,
    graph_algorithms,
    ml,
    sinks,
)
COMPILERS: Mapping[type[Vertex], OperatorCompiler[Any]] = {
    compiler.vertex: compiler for family in FAMILIES for compiler in family.COMPILERS
}
