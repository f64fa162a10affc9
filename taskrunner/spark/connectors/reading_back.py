"""Reading the newest rows of a sink, as a reader of the output finds them.

A connector whose output can be read without its secrets gives its `SinkWriter` a function
`last_rows`. The inspector calls the function, beside the job: no runner is asked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from jobmanager.core.ids import JobId


class CannotReadBack(Exception):
    """The output cannot be read; the message says why, and what to do instead."""


@dataclass(frozen=True, slots=True)
class ReadBackContext:
    spark: SparkSession
    job: JobId
    resolve: Callable[[str], Path]
    """Resolves a path in the graph. Raises `PathNotAllowed`."""
    columns: Callable[[], StructType]
    """The columns that the graph writes to the sink, for output that does not name its columns.
    Spark compiles the graph for them.
    """


@dataclass(frozen=True, slots=True)
class LastRows:
    rows: DataFrame | None
    """The newest rows, in any order; None: nothing has been written yet."""
    origin: str
    """What was read, for users: "batches 15 to 17, 3 files"."""
