"""`sink` as a DataFrame: the rows that are written, with checks that Spark would make too late."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.graph.sinks import FilesSink, Sink
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.compile.invalid_vertex import InvalidVertex


def _compile(vertex: Sink, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    [rows] = inputs
    files = vertex.connector
    if isinstance(files, FilesSink) and files.format is FileFormat.TEXT:
        # Spark would report this only when a batch is written
        written = [one for one in rows.schema.fields if one.name not in files.partition_by]
        if [one.dataType.simpleString() for one in written] != ["string"]:
            found = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in written)
            raise InvalidVertex(
                vertex.id, f"format text needs exactly one STRING column, found {found}", "format"
            )
    return rows


COMPILERS = (OperatorCompiler(Sink, _compile),)
