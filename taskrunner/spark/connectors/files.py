"""`files`: Spark's own formats; a directory in which each committed row is seen exactly once."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePath
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from jobmanager.core.graph.connectors.files import FilesSink, FilesSource
from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import AttemptNumber
from jobmanager.core.paths.location import Location
from jobmanager.core.snapshots.manifest import Ancestor
from taskrunner.core import file_sizes, full_disk
from taskrunner.core.batch_limit import LimitUnit
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.core.staged_rows import BatchCount
from taskrunner.sinks.continuation import continue_output
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.sinks.held_files import HeldFiles
from taskrunner.sinks.joiner import BreakOff
from taskrunner.sinks.output_files import LOCAL, OutputFiles, path_of
from taskrunner.sinks.outputs import place_of
from taskrunner.sinks.staged_files import staged_files, tells_rows
from taskrunner.snapshots import durable
from taskrunner.snapshots.spark_log import bytes_of_entries
from taskrunner.spark.connectors.batch_files import BatchFileWriter
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.hadoop_files import open_files
from taskrunner.spark.connectors.joined_files import joiner_of
from taskrunner.spark.connectors.reading import BatchSizing, ReadContext, SourceReader
from taskrunner.spark.connectors.reading_back import CannotReadBack, LastRows, ReadBackContext
from taskrunner.spark.connectors.row_counts import counted, counted_before, discard
from taskrunner.spark.connectors.writing import OutputPlaces, SinkWriter, WriteContext
from taskrunner.spark.session.hadoop_path import WITHOUT_PATTERNS, hadoop_path

_MOST_FILES = 50
"""So many files are read for the last rows, at most."""

_SAMPLE = 10_000
"""Rows that are measured before the first batch."""


class ExactlyOnceFiles(BatchSink):
    """A replayed batch is computed (its state is needed), but not written."""

    def __init__(self, sink: Sink, files: FilesSink, context: WriteContext) -> None:
        self._sink = sink
        self._files = files
        self._context = context
        place = place_of(files.path, context.resolve)
        self._path = path_of(place)
        self._store: OutputFiles = LOCAL
        if isinstance(place, Location):
            self._store = open_files(context.spark, place, sink.options)
        self._directory = SinkDirectory(
            self._path, context.job, sink.id, context.attempt, context.guard, files=self._store
        )
        self._held: HeldFiles | None = None
        """Joins small files; None: it is not known yet which columns come, or nothing is joined."""
        self._writer = BatchFileWriter(files.format)
        self._jobs = range(0)
        self._bytes_per_row: float | None = None
        """Of the last batch that this attempt wrote."""

    @property
    def holds_output(self) -> bool:
        return self._files.waits_for_checkpoint and self._context.graph.mode is Mode.STREAMING

    @property
    def jobs_of_batch(self) -> range:
        return self._jobs

    def begin(self, schema: StructType) -> None:
        if self.holds_output and self._files.target_file_size is not None:
            written = [one for one in schema.fields if one.name not in self._files.partition_by]
            joiner = joiner_of(
                self._context.spark,
                self._store,
                self._files.format,
                self._sink.options,
                StructType(written),
            )
            if joiner is not None:
                self._held = HeldFiles(self._directory, joiner, self._files.target_file_size)

    def write(self, rows: DataFrame, batch: int) -> int:
        self._jobs = range(0)
        if self._directory.state_of(batch) is not None:
            count = discard(rows)
            self._directory.finish(batch)
            return count
        staged = self._directory.stage(batch)
        try:
            with self._sized(rows, batch) as (sized, options):
                return self._write(sized, batch, staged, options)
        except BaseException:
            self._directory.abandon(batch, staged)
            raise

    def continue_output(self, lineage: tuple[Ancestor, ...]) -> None:
        context = self._context
        continue_output(
            self._path, context.job, self._sink.id, lineage, context.guard_of, self._store
        )

    def recover(self, last_kept: int, last_visible: int | None) -> None:
        self._directory.recover(last_kept, last_visible)

    def has_batch(self, batch: int) -> bool:
        return self._directory.state_of(batch) is not None

    def note_restore_point(self, batch: int) -> None:
        if self._held is not None:
            self._held.note_restore_point(batch)

    def join_up_to(self, batch: int, break_off: BreakOff) -> None:
        if self._held is not None:
            self._held.join_up_to(batch, break_off)

    def show_up_to(self, batch: int) -> None:
        self._directory.show_up_to(batch)

    @contextmanager
    def _sized(self, rows: DataFrame, batch: int) -> Iterator[tuple[DataFrame, Mapping[str, str]]]:
        """The same rows in as many tasks as give files of about the wanted size, and the options
        with which they are written. The rows are computed once, and kept by Spark until then.
        """
        target, columns = self._files.target_file_size, self._files.partition_by
        if target is None:
            yield rows, self._sink.options
            return
        with counted_before(rows) as (kept, count):
            per_row = self._bytes_per_row or self._directory.last_bytes_per_row()
            if per_row is None and count > 0:
                per_row = self._measured(kept, min(count, _SAMPLE), batch)
            split = file_sizes.split(count, per_row or 0, target, kept.rdd.getNumPartitions())
            # the rows of a directory in one task, or else each task has a file in each directory
            sized = (
                kept.repartition(split.tasks, *columns) if columns else kept.coalesce(split.tasks)
            )
            yield sized, {"maxRecordsPerFile": str(split.most_rows), **self._sink.options}

    def _measured(self, kept: DataFrame, count: int, batch: int) -> float:
        """The bytes of a row in a file, from a sample of so many rows that is written and deleted.
        It is staged like a batch: after a crash nobody knows it, and it is deleted.
        """
        staged = self._directory.stage(batch)
        try:
            sample = kept.limit(count).drop(*self._files.partition_by).write
            sample.format(self._files.format).options(**self._sink.options).save(
                self._store.uri(staged)
            )
            found = self._store.files_below(staged).items()
            return sum(size for path, size in found if path.name.startswith("part-")) / count
        finally:
            self._directory.discard(staged)

    def _write(
        self, rows: DataFrame, batch: int, staged: PurePath, options: Mapping[str, str]
    ) -> int:
        count = self._write_files(rows, staged, options)
        files = staged_files(staged, self._files.format, self._store)
        self._bytes_per_row = file_sizes.bytes_per_row(files, count.rows) or self._bytes_per_row
        self._directory.commit(batch, staged, count, files, self.holds_output)
        return count.rows

    def _write_files(
        self, rows: DataFrame, staged: PurePath, options: Mapping[str, str]
    ) -> BatchCount:
        is_stream = self._context.graph.mode is Mode.STREAMING
        if is_stream and not self._files.partition_by:
            written = self._writer.write(rows, self._store.uri(staged), options)
            if written is not None:
                self._jobs = written.jobs
                return BatchCount(written.rows, files=written.files)
        observed, count_of = counted(rows, by_partition=not tells_rows(self._files.format))
        writer = observed.write.format(self._files.format).options(**options)
        if self._files.partition_by:
            writer = writer.partitionBy(*self._files.partition_by)
        writer.save(self._store.uri(staged))
        return count_of()


def _read(source: Source, files: FilesSource, context: ReadContext) -> DataFrame:
    options = dict(source.options)
    place = place_of(files.path, context.resolve)
    if isinstance(place, Location) and context.is_trial:
        # maybe there are no credentials here, and no way to the store
        place = context.layout.directory / "no-files"
        durable.make_directory(place)
        options = {one: value for one, value in options.items() if not one.startswith("fs.")}
    if files.max_files_per_batch is not None and context.mode is Mode.STREAMING:
        options["maxFilesPerTrigger"] = str(files.max_files_per_batch)
    if first := context.first_limit(source, files, _SIZING):
        options["maxBytesPerTrigger"] = str(first)
    return context.load(files.format, source.schema, options, place)


def _taken(start: Any, end: Any, log: Path) -> int | None:
    before = -1 if start is None else int(start["logOffset"])
    return bytes_of_entries(log, before + 1, int(end["logOffset"]))


def _check_rows(sink: Sink, files: FilesSink, rows: DataFrame) -> None:
    if files.format is not FileFormat.TEXT:
        return
    written = [one for one in rows.schema.fields if one.name not in files.partition_by]
    if [one.dataType.simpleString() for one in written] != ["string"]:
        found = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in written)
        raise VertexRefused(f"format text needs exactly one STRING column, found {found}", "format")


def _lost_batches(sink: Sink, files: FilesSink, places: OutputPlaces) -> Mapping[int, str]:
    nobody, place = AttemptNumber(0), place_of(files.path, places.resolve)
    directory = SinkDirectory(
        path_of(place), places.job, sink.id, nobody, nullcontext, files=places.files_of(place)
    )
    return directory.lost_batches()


def _last_rows(sink: Sink, files: FilesSink, context: ReadBackContext, rows: int) -> LastRows:
    directory, nobody = place_of(files.path, context.resolve), AttemptNumber(0)
    if isinstance(directory, Location):
        raise CannotReadBack(
            f"rows of files in {files.path} are not shown, since only the runner of the job has "
            "its credentials: use the tools of that store"
        )
    records = SinkDirectory(directory, context.job, sink.id, nobody, nullcontext).newest(rows)
    named = [str(directory / one.final) for record in records for one in record.files]
    found = [one for one in map(context.resolve, named[:_MOST_FILES]) if one.exists()]
    if not found:
        return LastRows(None, f"no file in {directory}")
    options = {**sink.options, **WITHOUT_PATTERNS, "basePath": hadoop_path(directory)}
    reader = context.spark.read.format(files.format).options(**options)
    if files.format is FileFormat.CSV:
        reader = reader.schema(context.columns())
    batches = [record.batch for record in records]
    return LastRows(
        reader.load([hadoop_path(one) for one in found]),
        f"{_range(min(batches), max(batches))} in {directory}",
    )


def _free_bytes(path: str) -> int | None:
    """The space on the file system on which the path would be."""
    there = next((one for one in Path(path).parents if one.exists()), None)
    return shutil.disk_usage(there).free if there is not None else None


def _range(first: int, last: int) -> str:
    return f"batch {last}" if first == last else f"batches {first} to {last}"


_SIZING: BatchSizing[FilesSource] = BatchSizing(
    LimitUnit.BYTES,
    lambda files: files.max_files_per_batch is not None,
    frozenset(["maxfilespertrigger", "maxbytespertrigger", "latestfirst"]),
    _taken,
)
READERS = (SourceReader(FilesSource, _read, sizing=_SIZING),)
WRITERS = (
    SinkWriter(
        FilesSink,
        ExactlyOnceFiles,
        _check_rows,
        lambda causes: full_disk.explain(causes, _free_bytes),
        lost_batches=_lost_batches,
        last_rows=_last_rows,
    ),
)
