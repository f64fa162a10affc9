"""What everybody who compiles a vertex needs: its columns by name, and how to blame it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
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


def need_columns(
    vertex: VertexId, field: str, names: Sequence[str], rows: DataFrame, of: str = ""
) -> None:
    """Raises `InvalidVertex` if a column that the field names is not there."""
    missing = [name for name in names if not is_in(name, rows.columns)]
    if missing:
        message = f"{of}there is no column {', '.join(missing)}, only {rows.columns}"
        raise InvalidVertex(vertex, message, field)


def is_in(name: str, columns: Sequence[str]) -> bool:
    """Whether a column of that name is there; like Spark, without regard to case."""
    return name.lower() in {one.lower() for one in columns}
