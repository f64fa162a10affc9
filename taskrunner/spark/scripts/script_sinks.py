"""Writes the batches of a script's query as the script itself would have done."""

from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, Row

from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.scripts.script_writer import RecordedWriter

_OF_THE_QUERY = ("checkpointlocation", "path", "failondataloss")


class ScriptBatches(BatchSink):
    """Passes batches to the script's writer, at least once: a replayed batch is passed again. Rows
    are not counted.
    """

    def __init__(self, writer: RecordedWriter) -> None:
        self._writer = writer

    def write(self, rows: DataFrame, batch: int) -> int:
        writer = self._writer
        if writer.batch_function is not None:
            writer.batch_function(rows, batch)
        elif writer.row_function is not None:
            rows.foreachPartition(_ForEach(writer.row_function, batch))
        else:
            self._save(rows)
        return 0

    def _save(self, rows: DataFrame) -> None:
        """Spark's batch writer, for every format without a sink of its own."""
        writer = self._writer
        mode = "overwrite" if writer.mode == "complete" else "append"
        options = {
            name: value
            for name, value in writer.settings.items()
            if name.lower() not in _OF_THE_QUERY
        }
        batch = rows.write.format(writer.sink_format).mode(mode).options(**options)
        if writer.partitioned_by:
            batch = batch.partitionBy(*writer.partitioned_by)
        if writer.table is not None:
            batch.saveAsTable(writer.table)
        else:
            batch.save(writer.settings.get("path"))


class _ForEach:
    """PySpark's contract of `foreach`: a function of a row, or open, process and close."""

    def __init__(self, function: Any, batch: int) -> None:
        self._function = function
        self._batch = batch

    def __call__(self, rows: Iterator[Row]) -> None:
        if not hasattr(self._function, "process"):
            for row in rows:
                self._function(row)
            return
        error: Exception | None = None
        try:
            if self._open():
                for row in rows:
                    self._function.process(row)
        except Exception as raised:
            error = raised
            raise
        finally:
            if hasattr(self._function, "close"):
                self._function.close(error)

    def _open(self) -> bool:
        if not hasattr(self._function, "open"):
            return True
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        return bool(self._function.open(partition, self._batch))
