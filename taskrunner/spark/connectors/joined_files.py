"""Joins small files of Parquet or ORC with Spark, by a job of one task for each joined file."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from jobmanager.core.graph.file_format import FileFormat
from taskrunner.core.file_joins import Bin, JoinedFile
from taskrunner.core.sink_records import OutputFile
from taskrunner.core.staged_rows import BatchIncomplete
from taskrunner.sinks.joined_avro import AvroJoiner
from taskrunner.sinks.joined_text import TextJoiner
from taskrunner.sinks.joiner import BreakOff, FileJoiner, JoinRefused
from taskrunner.sinks.output_files import LOCAL, NoFooter, OutputFiles
from taskrunner.sinks.staged_files import staged_files, tells_rows
from taskrunner.spark.session.hadoop_path import WITHOUT_PATTERNS

_WITHOUT_COLUMNS_OF_PATHS: Mapping[str, str] = {"recursiveFileLookup": "true"}
"""Directories such as `day=1` are no columns: files are read as they were written."""


def joiner_of(
    spark: SparkSession,
    files: OutputFiles,
    file_format: FileFormat,
    options: Mapping[str, str],
    schema: StructType,
) -> FileJoiner | None:
    """Joins files of this format; None: they are not joined. `schema`: of the columns in them."""
    if tells_rows(file_format):
        return SparkJoiner(spark, files, file_format, options, schema)
    if file_format is FileFormat.AVRO:
        return AvroJoiner() if files is LOCAL else None
    return TextJoiner(files, file_format, options, schema.fieldNames())


class SparkJoiner:
    """The files are read with the columns of the rows that were written to them. One thread."""

    def __init__(
        self,
        spark: SparkSession,
        files: OutputFiles,
        file_format: FileFormat,
        options: Mapping[str, str],
        schema: StructType,
    ) -> None:
        self._spark = spark
        self._files = files
        self._format = file_format
        self._options = options
        self._schema = schema

    def can_join(self, file: OutputFile) -> bool:
        return True

    def join(
        self, bins: Sequence[Bin], private: PurePath, staged: PurePath, break_off: BreakOff
    ) -> list[JoinedFile]:
        joined = []
        for number, one in enumerate(bins):
            break_off.check()
            rows, target = self._rows(one, private), staged / str(number)
            self._write(one, private, target, break_off)
            joined += self._found(one, rows, private, target)
        return joined

    def _write(self, one: Bin, private: PurePath, target: PurePath, break_off: BreakOff) -> None:
        context, group = self._spark.sparkContext, f"join-{uuid4().hex}"
        context.setJobGroup(group, "joins small files")
        java_context = context._jsc.sc()
        with break_off.ending(lambda: java_context.cancelJobGroupAndFutureJobs(group)):
            rows = self._read(one, private).coalesce(1)
            rows.write.format(self._format).options(**self._options).save(self._files.uri(target))

    def _read(self, one: Bin, private: PurePath) -> DataFrame:
        of_store = {name: value for name, value in self._options.items() if name.startswith("fs.")}
        options = {**of_store, **WITHOUT_PATTERNS, **_WITHOUT_COLUMNS_OF_PATHS}
        paths = [self._files.uri(private / file.staged) for file in one.files]
        reader = self._spark.read.format(self._format).schema(self._schema)
        return reader.options(**options).load(paths)

    def _found(
        self, one: Bin, wanted: int, private: PurePath, target: PurePath
    ) -> list[JoinedFile]:
        """The files that Spark has written. Raises `JoinRefused` if they hold other rows."""
        try:
            found = staged_files(target, self._format, self._files)
        except BatchIncomplete as error:
            raise JoinRefused(str(error)) from None
        counted = sum(file.rows or 0 for file in found)
        if counted != wanted:
            parts = f"{len(one.files)} files with {wanted} rows"
            raise JoinRefused(
                f"{parts} became {len(found)} with {counted} in {self._files.shown(target)}"
            )
        return [
            JoinedFile(one, (target / file.path).relative_to(private).as_posix(), file.bytes)
            for file in found
            if not file.is_empty
        ]

    def _rows(self, one: Bin, private: PurePath) -> int:
        try:
            paths = (private / file.staged for file in one.files)
            return sum(self._files.count_rows(path, self._format) for path in paths)
        except NoFooter as error:
            raise JoinRefused(str(error)) from None
