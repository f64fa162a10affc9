"""Functions for all compilers: which columns there are, and faults that name the vertex."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from jobmanager.core.ids import VertexId
from taskrunner.core import spark_messages
from taskrunner.core.invalid_vertex import InvalidVertex


@contextmanager
def naming(vertex: VertexId, field: str = "") -> Iterator[None]:
    """Turns Spark's errors into faults of the vertex and its field."""
    try:
        yield
    except PySparkException as error:
        raise InvalidVertex(vertex, spark_messages.telling(str(error)), field) from error


def need_columns(
    vertex: VertexId, field: str, names: Sequence[str], rows: DataFrame, of: str = ""
) -> None:
    """Raises `InvalidVertex` if a column that the field names does not exist."""
    missing = [name for name in names if not is_in(name, rows.columns)]
    if missing:
        message = f"{of}there is no column {', '.join(missing)}, only {rows.columns}"
        raise InvalidVertex(vertex, message, field)


def is_in(name: str, columns: Sequence[str]) -> bool:
    """Whether a column with that name exists; like Spark, case-insensitively."""
    return name.lower() in {one.lower() for one in columns}
