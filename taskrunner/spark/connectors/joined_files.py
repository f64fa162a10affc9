"""Joins small files of Parquet or ORC with Spark's tasks, one task for each joined file."""

from collections.abc import Mapping, Sequence
from functools import reduce
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

_AT_ONCE = 32
"""So many files are made by one job of Spark."""
_ONE_PARTITION_EACH = "spark.sql.unionOutputPartitioning"
"""By default Spark may make one partition of the partitions of united rows."""
_LISTED_HERE = "spark.sql.sources.parallelPartitionDiscovery.threshold"
"""With more paths Spark runs a job to find files whose names are known."""


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
        self._given = spark
        self._session: SparkSession | None = None
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
        for first in range(0, len(bins), _AT_ONCE):
            break_off.check()
            some = bins[first : first + _AT_ONCE]
            rows = [self._rows(one, private) for one in some]
            target = staged / str(first)
            self._write(some, private, target, break_off)
            joined += self._found(some, rows, private, target)
        return joined

    def _write(
        self, bins: Sequence[Bin], private: PurePath, target: PurePath, break_off: BreakOff
    ) -> None:
        spark = self._own_session()
        united = reduce(DataFrame.unionAll, (self._read(spark, one, private) for one in bins))
        context, group = spark.sparkContext, f"join-{uuid4().hex}"
        context.setJobGroup(group, "joins small files")
        java_context = context._jsc.sc()
        with break_off.ending(lambda: java_context.cancelJobGroupAndFutureJobs(group)):
            united.write.format(self._format).options(**self._options).save(self._files.uri(target))

    def _read(self, spark: SparkSession, one: Bin, private: PurePath) -> DataFrame:
        """The rows of a bin in one partition, which becomes one file."""
        of_store = {name: value for name, value in self._options.items() if name.startswith("fs.")}
        reader = spark.read.format(self._format).schema(self._schema)
        paths = [self._files.uri(private / file.staged) for file in one.files]
        return reader.options(**of_store, **WITHOUT_PATTERNS).load(paths).coalesce(1)

    def _found(
        self, bins: Sequence[Bin], rows: Sequence[int], private: PurePath, target: PurePath
    ) -> list[JoinedFile]:
        """The files that Spark has written. Raises `JoinRefused` if they hold other rows."""
        try:
            found = staged_files(target, self._format, self._files)
        except BatchIncomplete as error:
            raise JoinRefused(str(error)) from None
        joined = []
        for number, (one, wanted) in enumerate(zip(bins, rows, strict=True)):
            mine = [file for file in found if file.partition == number]
            counted = sum(file.rows or 0 for file in mine)
            if counted != wanted:
                raise JoinRefused(
                    f"{len(one.files)} files in {self._files.shown(target)} with {wanted} rows "
                    f"became {len(mine)} with {counted}"
                )
            joined += [
                JoinedFile(one, (target / file.path).relative_to(private).as_posix(), file.bytes)
                for file in mine
                if not file.is_empty
            ]
        return joined

    def _rows(self, one: Bin, private: PurePath) -> int:
        try:
            paths = (private / file.staged for file in one.files)
            return sum(self._files.count_rows(path, self._format) for path in paths)
        except NoFooter as error:
            raise JoinRefused(str(error)) from None

    def _own_session(self) -> SparkSession:
        """A session with the settings of the job, and some of its own."""
        if self._session is None:
            copied = self._given._jsparkSession.cloneSession()
            self._session = SparkSession(self._given.sparkContext, copied)
            self._session.conf.set(_ONE_PARTITION_EACH, "false")
            self._session.conf.set(_LISTED_HERE, str(1 << 20))
        return self._session
