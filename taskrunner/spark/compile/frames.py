"""What everybody who compiles a vertex needs: its columns by name, and how to blame it."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as sql

from jobmanager.core.ids import VertexId
from taskrunner.core import spark_messages
from taskrunner.spark.compile.invalid_vertex import InvalidVertex


def column(name: str) -> Column:
    """The column of that very name, whatever characters are in it."""
    return sql.col("`" + name.replace("`", "``") + "`")


@contextmanager
def naming(vertex: VertexId, field: str = "") -> Iterator[None]:
    """Blames the vertex, and its field, for what Spark says."""
    try:
        yield
    except PySparkException as error:
        raise InvalidVertex(vertex, spark_messages.telling(str(error)), field) from error
