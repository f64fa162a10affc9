"""The writer and query that a script gets instead of Spark's own: they record queries and start
nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn
from uuid import uuid4

from pyspark.sql import DataFrame

Start = Callable[["RecordedWriter"], "DeclaredQuery"]


class ScriptWaits(BaseException):
    """The script waits for its queries: all of them are declared.

    Not an `Exception`, so that a script that catches `Exception` does not catch this.
    """


@dataclass
class RecordedWriter:
    """The interface of Spark's `DataStreamWriter`, as far as scripts use it."""

    rows: DataFrame
    on_start: Start
    sink_format: str = "parquet"
    settings: dict[str, str] = field(default_factory=dict)
    mode: str = "append"
    name: str | None = None
    triggered: dict[str, Any] = field(default_factory=dict)
    partitioned_by: tuple[str, ...] = ()
    batch_function: Callable[[DataFrame, int], None] | None = None
    row_function: Any = None
    table: str | None = None

    # PySpark's own names
    def format(self, source: str) -> "RecordedWriter":
        self.sink_format = source
        return self

    def option(self, key: str, value: Any) -> "RecordedWriter":
        if value is not None:
            self.settings[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Any) -> "RecordedWriter":
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, outputMode: str) -> "RecordedWriter":  # noqa: N802, N803
        self.mode = outputMode.lower()
        return self

    def queryName(self, queryName: str) -> "RecordedWriter":  # noqa: N802, N803
        self.name = queryName
        return self

    def trigger(self, **kind: Any) -> "RecordedWriter":
        self.triggered = {name: value for name, value in kind.items() if value is not None}
        return self

    def partitionBy(self, *columns: Any) -> "RecordedWriter":  # noqa: N802
        listed = columns[0] if len(columns) == 1 and isinstance(columns[0], list) else columns
        self.partitioned_by = tuple(listed)
        return self

    def foreachBatch(  # noqa: N802
        self, func: Callable[[DataFrame, int], None]
    ) -> "RecordedWriter":
        self.batch_function = func
        return self

    def foreach(self, f: Any) -> "RecordedWriter":
        self.row_function = f
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> "DeclaredQuery":
        self.options(**options)
        if path is not None:
            self.option("path", path)
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        if partitionBy is not None:
            self.partitionBy(*([partitionBy] if isinstance(partitionBy, str) else partitionBy))
        if queryName is not None:
            self.queryName(queryName)
        return self.on_start(self)

    def toTable(self, tableName: str, **more: Any) -> "DeclaredQuery":  # noqa: N802, N803
        self.table = tableName
        return self.start(**more)


class DeclaredQuery:
    """A query that will run after the script has ended. Any question about its progress ends the
    script.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = self.runId = str(uuid4())

    def stop(self) -> None:
        """Does nothing: Headgate stops queries."""

    def awaitTermination(self, timeout: int | None = None) -> NoReturn:  # noqa: N802
        raise ScriptWaits

    def processAllAvailable(self) -> NoReturn:  # noqa: N802
        raise ScriptWaits

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise ScriptWaits


class DeclaredQueries:
    """Replaces `spark.streams`."""

    def __init__(self, queries: list[DeclaredQuery], real: Any) -> None:
        self._queries = queries
        self._real = real

    @property
    def active(self) -> list[DeclaredQuery]:
        return list(self._queries)

    def get(self, id: str) -> DeclaredQuery | None:
        return next((one for one in self._queries if one.id == id), None)

    def awaitAnyTermination(self, timeout: int | None = None) -> NoReturn:  # noqa: N802
        raise ScriptWaits

    def resetTerminated(self) -> None:  # noqa: N802
        """Does nothing: no query has ended."""

    def addListener(self, listener: Any) -> None:  # noqa: N802
        self._real.addListener(listener)

    def removeListener(self, listener: Any) -> None:  # noqa: N802
        self._real.removeListener(listener)
