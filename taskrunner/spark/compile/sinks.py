"""`sink` as a DataFrame: the rows that are written, with checks that Spark would make too late."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from jobmanager.core.graph.sinks import Sink
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.connectors.registry import WRITERS


def _compile(vertex: Sink, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    [rows] = inputs
    WRITERS[type(vertex.connector)].check_rows(vertex, vertex.connector, rows)
    return rows


COMPILERS = (OperatorCompiler(Sink, _compile),)
