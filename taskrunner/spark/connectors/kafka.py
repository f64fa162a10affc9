"""`kafka`: Spark's source; Spark's sink at least once, and exactly once by staged transactions."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.readwriter import DataStreamWriter

from jobmanager.core.graph.connectors import kafka_fields
from jobmanager.core.graph.connectors.kafka import KafkaSink, KafkaSource, Metadata
from jobmanager.core.graph.connectors.kafka_fields import TopicSelection
from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.progress import SourceProgress
from jobmanager.core.snapshots.manifest import Ancestor
from taskrunner.core import kafka_failures
from taskrunner.core.batch_limit import LimitUnit
from taskrunner.core.kafka_lag import UnreadRecords, lags, offsets_in, records_between
from taskrunner.core.writer_schemas import WriterSchemas
from taskrunner.sinks.decided_batches import DecidedBatches
from taskrunner.sinks.directory import Guard
from taskrunner.sinks.staged_files import staged_files
from taskrunner.sinks.staged_transactions import StagedTransactions
from taskrunner.spark.connectors import kafka_records, met_schemas
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.kafka_admin import KafkaAdmin
from taskrunner.spark.connectors.kafka_transactions import KafkaTransactions
from taskrunner.spark.connectors.reading import BatchSizing, ReadContext, SourceReader, progress_of
from taskrunner.spark.connectors.reading_back import CannotReadBack, LastRows, ReadBackContext
from taskrunner.spark.connectors.row_counts import counted, counted_before, discard
from taskrunner.spark.connectors.writing import OutputPlaces, SinkWriter, WriteContext
from taskrunner.spark.session.hadoop_path import hadoop_path

_unread: dict[str, UnreadRecords] = {}
"""Source to what was measured at the last checkpoint. A runner has one job at a time."""


def _read(source: Source, kafka: KafkaSource, context: ReadContext) -> DataFrame:
    _unread.pop(source.id, None)
    options = {
        **_of_kafka(source.options),
        **dict([kafka.subscription.option]),
        **kafka.starting.options,
        "kafka.bootstrap.servers": ",".join(kafka.servers),
        "includeHeaders": str(Metadata.HEADERS in kafka.metadata).lower(),
    }
    if context.mode is Mode.STREAMING and kafka.max_rows_per_batch is not None:
        options["maxOffsetsPerTrigger"] = str(kafka.max_rows_per_batch)
    if first := context.first_limit(source, kafka, _SIZING):
        options["maxOffsetsPerTrigger"] = str(first)
    records = context.load("kafka", None, options)
    return kafka_records.decoded(
        records,
        source.id,
        kafka,
        source.schema,
        _of_format(source),
        _writers(source, kafka, context),
    )


def _taken(start: Any, end: Any, log: Path) -> int | None:
    # Where the first batch began is not in Spark's log of offsets.
    return None if start is None else records_between(start, end)


def _writers(source: Source, kafka: KafkaSource, context: ReadContext) -> WriterSchemas:
    """The schemas that records may have. Of JSON every record is read alike."""
    registry = kafka.registry
    if registry is None or registry.resolved is None or not kafka.format.is_avro:
        return WriterSchemas()
    if context.is_trial:
        return WriterSchemas().with_submitted(registry.resolved)
    return met_schemas.schemas_of(source.id, registry, context.layout.schemas(source.id))


def _progress(vertex: str, report: Any) -> SourceProgress:
    found = progress_of(vertex, report)
    read, ends = offsets_in(report.endOffset), offsets_in(report.latestOffset)
    unread = _unread.setdefault(vertex, UnreadRecords())
    lagging = lags(read, ends, unread, int(time.time() * 1000))
    if not lagging:
        return found
    return replace(found, backlog_rows=sum(one.rows for one in lagging), lags=lagging)


def _checkpointed(source: Source, kafka: KafkaSource, offset: Any, context: ReadContext) -> None:
    """Commits the offsets to the source's group, and measures the age of what was not read."""
    read = offsets_in(offset)
    if not read:
        return
    settings = kafka_fields.client_settings(kafka.servers, source.options)
    admin = KafkaAdmin(context.spark, settings)
    if kafka.group is not None:
        admin.commit(kafka.group, read)
    ends = admin.ends(read)
    behind = {place: position for place, position in read.items() if ends[place] > position}
    unread = _unread.setdefault(source.id, UnreadRecords())
    unread.measured(behind, admin.written_ms(behind))


def _partitions(source: Source, kafka: KafkaSource, spark: SparkSession) -> int:
    admin = KafkaAdmin(spark, kafka_fields.client_settings(kafka.servers, source.options))
    return admin.partitions(kafka.subscription)


class KafkaBatches(BatchSink):
    """At least once, by Spark's own writer: a batch that is run again is written again. Headers
    tell consumers which rows are the same.
    """

    def __init__(self, sink: Sink, kafka: KafkaSink, context: WriteContext) -> None:
        self._vertex = sink.id
        self._kafka = kafka
        self._options = _writer_options(sink, kafka)
        self._name = _output_name(sink, context)

    def write(self, rows: DataFrame, batch: int) -> int:
        with counted_before(rows) as (kept, count):
            records = kafka_records.encoded(
                kept,
                self._vertex,
                self._kafka,
                {**_own_headers(self._name), "headgate-batch": sql.lit(str(batch))},
            )
            records.write.format("kafka").options(**self._options).save()
        return count


class KafkaTransactionalBatches(BatchSink):
    """Exactly once: rows are staged, and published with a marker by one transaction a batch."""

    def __init__(self, sink: Sink, kafka: KafkaSink, context: WriteContext) -> None:
        self._sink = sink
        self._kafka = kafka
        self._context = context
        self._output = self._output_of(context.job, context.attempt, context.guard)

    @property
    def holds_output(self) -> bool:
        is_stream = self._context.graph.mode is Mode.STREAMING
        return is_stream and self._kafka.waits_for_checkpoint

    def write(self, rows: DataFrame, batch: int) -> int:
        if self._output.is_decided(batch):
            count = discard(rows)
        else:
            staged = self._output.stage(batch)
            try:
                count = self._stage(rows, batch, staged)
            except BaseException:
                self._output.abandon(batch, staged)
                raise
        if not self.holds_output:
            self._output.show_up_to(batch)
        return count

    def continue_output(self, lineage: tuple[Ancestor, ...]) -> None:
        """Publishes what the job that this job continues had staged up to the savepoint, and keeps
        that job from publishing more. What it has published after the savepoint stays.
        """
        known = [one for one in lineage if self._sink.id in one.batches]
        if known:
            batch = known[-1].batches[self._sink.id]
            last = -1 if batch is None else batch
            guard = self._context.guard_of(known[-1].job)
            other = self._output_of(known[-1].job, AttemptNumber(0), guard)
            try:
                other.recover(last_kept=last, last_visible=last)
            finally:
                other.close()

    def recover(self, last_kept: int, last_visible: int | None) -> None:
        self._output.recover(last_kept, last_visible)

    def has_batch(self, batch: int) -> bool:
        return self._output.is_decided(batch)

    def show_up_to(self, batch: int) -> None:
        self._output.show_up_to(batch)

    def _output_of(self, job: JobId, attempt: AttemptNumber, guard: Guard) -> StagedTransactions:
        sink, kafka, context = self._sink, self._kafka, self._context
        topic = KafkaTransactions(
            context.spark,
            f"headgate.{job.hex}.{sink.id}",
            kafka.topic,
            kafka_fields.client_settings(kafka.servers, sink.options),
        )
        layout = context.layout if job == context.job else context.layout.of_other(job)
        return StagedTransactions(
            layout.transactions(sink.id), sink.id, attempt, topic, guard, kafka.rewind
        )

    def _stage(self, rows: DataFrame, batch: int, staged: Path) -> int:
        observed, count_of = counted(rows, by_partition=False)
        records = kafka_records.encoded(observed, self._sink.id, self._kafka, {})
        nulls = {"partition": sql.lit(None).cast("int"), "timestamp": sql.lit(None).cast("long")}
        records.withColumns(nulls).write.parquet(hadoop_path(staged))
        count = count_of()
        files = staged_files(staged, FileFormat.PARQUET)
        self._output.decide(batch, staged, count, files)
        return count.rows


def _open(sink: Sink, kafka: KafkaSink, context: WriteContext) -> BatchSink:
    if kafka.is_exactly_once:
        return KafkaTransactionalBatches(sink, kafka, context)
    return KafkaBatches(sink, kafka, context)


def _pass_on(
    sink: Sink, kafka: KafkaSink, rows: DataFrame, context: WriteContext
) -> DataStreamWriter:
    """At least once, record by record. No header tells the batch: it is one query for all."""
    headers = _own_headers(_output_name(sink, context))
    records = kafka_records.encoded(rows, sink.id, kafka, headers)
    return records.writeStream.format("kafka").options(**_writer_options(sink, kafka))


def _own_headers(name: str) -> dict[str, Column]:
    """The headers by which consumers find repeated records."""
    return {
        "headgate-job": sql.lit(name),
        "headgate-row": sql.lower(sql.hex(sql.xxhash64("key", "value"))),
    }


def _output_name(sink: Sink, context: WriteContext) -> str:
    return f"{context.job.hex}/{sink.id}"


def _writer_options(sink: Sink, kafka: KafkaSink) -> dict[str, str]:
    return {
        **_of_kafka(sink.options),
        "kafka.bootstrap.servers": ",".join(kafka.servers),
        "topic": kafka.topic,
    }


def _check_rows(sink: Sink, kafka: KafkaSink, rows: DataFrame) -> None:
    kafka_records.check_value(rows, kafka)


def _lost_batches(sink: Sink, kafka: KafkaSink, places: OutputPlaces) -> Mapping[int, str]:
    if not kafka.is_exactly_once:
        return {}
    return DecidedBatches(places.layout.transactions(sink.id), sink.id).lost()


def _of_kafka(options: Mapping[str, str]) -> dict[str, str]:
    """The options for Spark's source and Kafka's client; the others are for the format."""
    return {name: value for name, value in options.items() if kafka_fields.is_of_kafka(name)}


def _of_format(source: Source) -> dict[str, str]:
    options = source.options.items()
    return {name: value for name, value in options if not kafka_fields.is_of_kafka(name)}


def _last_rows(sink: Sink, kafka: KafkaSink, context: ReadBackContext, rows: int) -> LastRows:
    if kafka.format.is_avro:
        raise CannotReadBack(
            f"sink {sink.id} writes Avro records, which are not shown as rows: use a consumer of "
            "Kafka with the schema"
        )
    admin = KafkaAdmin(context.spark, kafka_fields.client_settings(kafka.servers, sink.options))
    count = admin.partitions(TopicSelection((kafka.topic,)))
    ends = admin.ends({(kafka.topic, one): 0 for one in range(count)})
    # The end of a transaction has an offset too: half of the offsets may have no record.
    starts = {str(partition): max(0, end - 2 * rows) for (_, partition), end in ends.items()}
    origin = f"the ends of {count} partitions of topic {kafka.topic}"
    if not any(ends.values()):
        return LastRows(None, origin)
    options = {
        **_of_kafka(sink.options),
        "kafka.bootstrap.servers": ",".join(kafka.servers),
        "kafka.isolation.level": "read_committed",
        "subscribe": kafka.topic,
        "startingOffsets": json.dumps({kafka.topic: starts}),
        "failOnDataLoss": "false",  # the oldest of these records may have expired
    }
    found = context.spark.read.format("kafka").options(**options).load()
    texts = [sql.col(one).cast("string").alias(one) for one in ("key", "value")]
    newest = found.orderBy(sql.desc("timestamp"), sql.desc("offset"))
    return LastRows(newest.select("partition", "offset", "timestamp", *texts), origin)


_SIZING: BatchSizing[KafkaSource] = BatchSizing(
    LimitUnit.ROWS,
    lambda kafka: kafka.max_rows_per_batch is not None,
    frozenset(["maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"]),
    _taken,
)
READERS = (
    SourceReader(
        KafkaSource,
        _read,
        _progress,
        _checkpointed,
        _partitions,
        met_schemas.explain,
        _SIZING,
    ),
)
WRITERS = (
    SinkWriter(
        KafkaSink,
        _open,
        _check_rows,
        kafka_failures.explain,
        lost_batches=_lost_batches,
        pass_on=_pass_on,
        last_rows=_last_rows,
    ),
)
