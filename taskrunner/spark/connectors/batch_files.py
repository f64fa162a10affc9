"""Writes the rows of a batch to files without a tax on each row.

`DataFrame.write` copies each row of a batch of a stream once more than Spark's own sink of files,
and to count the rows costs as much again. `BatchFiles.java` does neither. It uses parts of Spark
that are not its public API: where they are missing, `DataFrame.write` is used as before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from jobmanager.core.graph.file_format import FileFormat
from taskrunner import logs
from taskrunner.spark.session.compiled_java import BATCH_FILES, java_map, java_object

_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_CLASSES = {
    FileFormat.PARQUET: f"{_DATASOURCES}.parquet.ParquetFileFormat",
    FileFormat.JSON: f"{_DATASOURCES}.json.JsonFileFormat",
    FileFormat.CSV: f"{_DATASOURCES}.csv.CSVFileFormat",
    FileFormat.ORC: f"{_DATASOURCES}.orc.OrcFileFormat",
    FileFormat.TEXT: f"{_DATASOURCES}.text.TextFileFormat",
}
"""Spark's classes that write; that of Avro is in a connector's jar."""
_log = logs.get("batches")


@dataclass(frozen=True, slots=True)
class FilesWritten:
    """What Spark's tasks have counted."""

    rows: int
    files: int
    """With the empty file of an empty partition 0."""
    jobs: range
    """Numbers of the Spark jobs that computed the batch, if it was from its own plan."""


class BatchFileWriter:
    """Writes the batches of one sink."""

    def __init__(self, file_format: FileFormat) -> None:
        self._class = _CLASSES.get(file_format)

    def write(self, rows: DataFrame, uri: str, options: Mapping[str, str]) -> FilesWritten | None:
        """Writes into a new directory; None: this has to be done by `DataFrame.write`."""
        if self._class is None:
            return None
        spark = rows.sparkSession
        try:
            files = java_object(spark, BATCH_FILES)
        except Py4JError as error:
            _log.warning("batches_written_by_data_frames", reason=str(error)[:500])
            self._class = None
            return None
        jvm: Any = spark._jvm
        found = files.write(rows._jdf, self._class, uri, java_map(jvm, options))
        count, files_written, first, end = (int(one) for one in found)
        return FilesWritten(count, files_written, range(first, end))
