"""Finds the fields of a vertex that Spark refuses: Spark's errors do not name the field."""

from collections.abc import Iterator, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.errors import Fault
from jobmanager.core.graph.vertex import Vertex
from taskrunner.core import spark_messages


def faults_of(vertex: Vertex, inputs: Sequence[DataFrame]) -> list[Fault]:
    """A fault for every field that Spark refuses."""
    return list(_refused(vertex, inputs[0])) if len(inputs) == 1 else []


def _refused(vertex: Vertex, rows: DataFrame) -> Iterator[Fault]:
    for field, name in vertex.needed_columns():
        if name not in rows.columns:
            there = ", ".join(rows.columns)
            yield Fault(vertex.id, field, f"there is no column {name!r}, only {there}")
    for field, text in vertex.expressions():
        try:
            # an aggregate expression is analysed as if all rows were one group
            rows.select(sql.expr(text))
        except PySparkException as error:
            yield Fault(vertex.id, field, spark_messages.telling(str(error)))
