"""How the values of Kafka's records become columns, in each format but raw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.types import LongType, StructType

from jobmanager.core.graph.avro_schema import AvroRecord
from jobmanager.core.graph.connectors.kafka import KafkaSource
from jobmanager.core.graph.connectors.record_formats import (
    CHANGE_COLUMNS,
    CHANGE_SOURCE,
    RecordFormat,
)
from jobmanager.core.graph.connectors.schema_registry import HEADER_BYTES
from taskrunner.core.kafka_failures import UNKNOWN_SCHEMA
from taskrunner.core.writer_schemas import WriterSchemas
from taskrunner.spark.connectors import avro_values

ROW = "__headgate_decoded"
"""The column with what was decoded."""
_CORRUPT = "__headgate_corrupt"
_ENVELOPE = "payload"
_TOMBSTONE = r'^\s*(null|\{\s*"schema"\s*:\s*null\s*,\s*"payload"\s*:\s*null\s*\})\s*$'
"""What a converter without support for tombstones makes of one."""


@dataclass(frozen=True)
class ValueDecoder:
    row: Column
    """A struct with what is in the value. It is evaluated once, into the column `ROW`."""
    is_bad: Column
    """Whether `ROW` is not what was in the value, or not what the format says."""
    columns: Mapping[str, Column]
    """The columns, from `ROW`."""


def decoder(
    vertex: str,
    source: KafkaSource,
    schema: str | None,
    options: Mapping[str, str],
    writers: WriterSchemas,
) -> ValueDecoder:
    """How the values of a source are decoded. `schema` is DDL, for formats that take it; `writers`:
    the schemas of a registry that records may have.
    """
    value = sql.col("value") if source.registry is None else _after_header()
    match source.format:
        case RecordFormat.AVRO | RecordFormat.DEBEZIUM_AVRO:
            return _avro(vertex, source, writers)
        case RecordFormat.DEBEZIUM_JSON:
            return _changes_in_json(value, _struct(schema), options)
        case RecordFormat.JSON | RecordFormat.CSV:
            return _text(value, source.format, schema, options)
        case RecordFormat.RAW:
            raise AssertionError("raw values are not decoded")


def is_tombstone(kind: RecordFormat) -> Column:
    """Whether a record only says that its key was deleted. Debezium sends it after the deletion
    itself, so that the broker can forget the key.
    """
    value = sql.col("value")
    if kind.is_avro:
        return value.isNull()
    return value.isNull() | ((sql.length(value) < 64) & value.cast("string").rlike(_TOMBSTONE))


def _text(
    value: Column, kind: RecordFormat, schema: str | None, options: Mapping[str, str]
) -> ValueDecoder:
    parse = sql.from_json if kind is RecordFormat.JSON else sql.from_csv
    row = parse(value.cast("string"), f"{schema}, {_CORRUPT} STRING", _lenient(options))
    return ValueDecoder(row, _is_corrupt(), _columns(_struct(schema).fieldNames()))


def _avro(vertex: str, source: KafkaSource, writers: WriterSchemas) -> ValueDecoder:
    assert source.avro is not None
    is_bad = sql.col(f"{ROW}.{avro_values.DECODED}").isNull()
    if source.registry is None:
        row = avro_values.read(sql.col("value"), source.avro.text, source.avro)
    else:
        row = _by_writer(source.avro, writers)
        is_bad = sql.when(_is_unknown(writers), _fail_at_unknown(vertex)).otherwise(is_bad)
    if not source.format.has_changes:
        return ValueDecoder(row, is_bad, _columns(source.avro.names))
    changes = _columns(CHANGE_COLUMNS)
    return ValueDecoder(row, is_bad | ~_is_change(changes), changes)


def _by_writer(reader: AvroRecord, writers: WriterSchemas) -> Column:
    """Each record read with the schema that it was written with, as a record of `reader`."""
    body = _after_header()
    row: Column | None = None
    for number, text in sorted(writers.known.items()):
        is_it, read = _schema_id() == number, avro_values.read(body, text, reader)
        row = sql.when(is_it, read) if row is None else row.when(is_it, read)
    assert row is not None, "the schema of the source itself is among them"
    return row


def _has_header() -> Column:
    """Whether a value begins as Confluent's wire format says."""
    value = sql.col("value")
    zero = sql.substring(value, 1, 1) == sql.lit(bytearray(1))
    return (sql.length(value) >= HEADER_BYTES) & zero


def _schema_id() -> Column:
    number = sql.hex(sql.substring(sql.col("value"), 2, HEADER_BYTES - 1))
    return sql.when(_has_header(), sql.conv(number, 16, 10).cast("bigint"))


def _after_header() -> Column:
    body = sql.substring(sql.col("value"), HEADER_BYTES + 1, 2**31 - 1)
    return sql.when(_has_header(), body)


def _is_unknown(writers: WriterSchemas) -> Column:
    return _has_header() & ~_schema_id().isin(sorted(writers.ids))


def _fail_at_unknown(vertex: str) -> Column:
    """Whatever `on_error` says: only the registry can tell whether such a record is right."""
    place = [sql.col(one).cast("string") for one in ("topic", "partition", "offset")]
    told = [sql.lit(f"{UNKNOWN_SCHEMA} {vertex}"), *place, _schema_id().cast("string")]
    return sql.raise_error(sql.concat_ws(" ", *told)).cast("boolean")


def _changes_in_json(value: Column, table: StructType, options: Mapping[str, str]) -> ValueDecoder:
    """A change, by itself or with its schema around it: both are parsed at once, and one of them is
    null.
    """
    change = (
        StructType()
        .add("op", "string")
        .add("before", table)
        .add("after", table)
        .add("ts_ms", LongType())
        .add("source", _struct(CHANGE_SOURCE))
    )
    expected = StructType([*change.fields]).add(_ENVELOPE, change).add(_CORRUPT, "string")
    row = sql.from_json(value.cast("string"), expected, _lenient(options))
    inner = sql.col(f"{ROW}.{_ENVELOPE}")
    changes = {
        name: sql.when(inner.isNotNull(), inner[name]).otherwise(bare)
        for name, bare in _columns(CHANGE_COLUMNS).items()
    }
    return ValueDecoder(row, _is_corrupt() | ~_is_change(changes), changes)


def _is_change(columns: Mapping[str, Column]) -> Column:
    """Whether the columns are a change of a row, with all that it takes to repeat the change."""
    op = columns["op"]
    needed = sql.when(op == "d", columns["before"].isNotNull()).otherwise(
        columns["after"].isNotNull()
    )
    return sql.coalesce(op.isin("c", "u", "d", "r") & needed, sql.lit(False))


def _columns(names: Sequence[str]) -> dict[str, Column]:
    return {name: sql.col(f"{ROW}.`{name}`") for name in names}


def _is_corrupt() -> Column:
    return sql.col(ROW).isNull() | sql.col(f"{ROW}.{_CORRUPT}").isNotNull()


def _lenient(options: Mapping[str, str]) -> dict[str, str]:
    return {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}


def _struct(schema: str | None) -> StructType:
    assert schema is not None
    return cast(StructType, StructType.fromDDL(schema))
