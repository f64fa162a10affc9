"""The compilers of all operators, by the class of the vertex.

A family is imported when a graph first has a vertex of it: pandas and Spark ML, which some of them
need, take a second to import, which the first job of a process would have to wait.
"""

from importlib import import_module
from typing import Any

from jobmanager.core.graph.vertex import Vertex
from taskrunner.spark.compile.compile_context import OperatorCompiler

FAMILIES = (
    "sources",
    "projection",
    "aggregates",
    "windows",
    "joins",
    "sql_queries",
    "process_functions",
    "pyspark_functions",
    "scripts",
    "iterations",
    "graph_algorithms",
    "ml",
    "sinks",
)
"""Modules of this package, named as those of `jobmanager.core.graph` with the vertices' classes."""


def compiler_of(kind: type[Vertex]) -> OperatorCompiler[Any]:
    """The compiler of a class of vertices. Raises `KeyError` if the family has none."""
    family = kind.__module__.rpartition(".")[2]
    if family not in FAMILIES:
        raise KeyError(kind)
    compilers: tuple[OperatorCompiler[Any], ...] = import_module(
        f"{__package__}.{family}"
    ).COMPILERS
    return {one.vertex: one for one in compilers}[kind]
