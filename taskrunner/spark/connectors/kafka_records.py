"""The values of Kafka records as columns, and rows as records."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StringType, StructType

from jobmanager.core.graph.connectors import record_formats
from jobmanager.core.graph.connectors.kafka import (
    KafkaSink,
    KafkaSource,
    Metadata,
    OnError,
)
from jobmanager.core.graph.connectors.record_formats import RecordFormat
from jobmanager.core.graph.connectors.schema_registry import RegistryReference
from jobmanager.core.graph.inputs import Side
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.core.kafka_failures import UNREADABLE
from taskrunner.core.writer_schemas import WriterSchemas
from taskrunner.keyed.windows.spec import SIDE, SIDE_ROW
from taskrunner.spark.connectors import avro_values, record_values
from taskrunner.spark.connectors.reading import unreadable_metric
from taskrunner.spark.connectors.record_values import ROW

_BAD = "__headgate_bad"
_MOST_SHOWN = 200
_HEADERS = "array<struct<key:string,value:binary>>"


def decoded(
    records: DataFrame,
    vertex: str,
    source: KafkaSource,
    schema: str | None,
    options: Mapping[str, str],
    writers: WriterSchemas = WriterSchemas(),  # noqa: B008 (it is immutable)
) -> DataFrame:
    """The rows in Kafka's records, with the metadata that the source asks for."""
    added = [_metadata(one) for one in source.metadata]
    if source.format is RecordFormat.RAW:
        assert schema is not None
        wanted = _struct(schema)
        return records.select(_raw(wanted).alias(wanted.fieldNames()[0]), *added)
    if source.format.has_changes:
        records = records.where(~record_values.is_tombstone(source.format))
    value = record_values.decoder(vertex, source, schema, options, writers)
    kept = [sql.col(name) for name in ("topic", "partition", "offset", "timestamp", "key")]
    headers = [sql.col("headers")] if Metadata.HEADERS in source.metadata else []
    parsed = records.select("value", *kept, *headers, value.row.alias(ROW))
    counted = parsed.withColumn(_BAD, value.is_bad).observe(
        unreadable_metric(vertex), sql.count_if(sql.col(_BAD)).alias("bad")
    )
    columns = [column.alias(name) for name, column in value.columns.items()]
    if source.on_error is OnError.SIDE:
        return counted.select(*columns, *added, *_side())
    good = counted.where(_is_good(source, vertex))
    return good.select(*columns, *added)


def encoded(rows: DataFrame, vertex: str, sink: KafkaSink, own: Mapping[str, Column]) -> DataFrame:
    """Rows as records: key, value and headers, those of the sink and `own` ones."""
    headers = [
        _header(name, sql.col(f"`{name}`").cast("string").cast("binary")) for name in sink.headers
    ]
    value = _value(rows, vertex, sink)
    if sink.registry is not None:
        value = sql.concat(sql.lit(bytearray(_header_of(sink.registry))), value)
    key = sql.lit(None) if sink.key is None else sql.col(f"`{sink.key}`").cast("string")
    made = rows.select(key.cast("binary").alias("key"), value.alias("value"), *_named(headers))
    extra = [_header(name, column.cast("binary")) for name, column in own.items()]
    # without any header the array has no type of its own
    all_headers = sql.array(*_columns(made), *extra).cast(_HEADERS)
    return made.select("key", "value", all_headers.alias("headers"))


def _header_of(registry: RegistryReference) -> bytes:
    if registry.resolved is None:
        raise VertexRefused("the registry was not asked for the schema yet", "registry")
    return registry.resolved.header


def _named(headers: list[Column]) -> list[Column]:
    return [one.alias(f"header{number}") for number, one in enumerate(headers)]


def _columns(made: DataFrame) -> list[Column]:
    return [sql.col(name) for name in made.columns if name.startswith("header")]


def _header(name: str, value: Column) -> Column:
    return sql.struct(sql.lit(name).alias("key"), value.alias("value"))


def _value(rows: DataFrame, vertex: str, sink: KafkaSink) -> Column:
    names = sink.value_columns(tuple(rows.columns))
    columns = [sql.col(f"`{name}`") for name in names]
    match sink.format:
        case RecordFormat.JSON:
            return sql.to_json(sql.struct(*columns)).cast("binary")
        case RecordFormat.CSV:
            return sql.to_csv(sql.struct(*columns)).cast("binary")
        case RecordFormat.RAW:
            return columns[0].cast("binary")
        case RecordFormat.AVRO:
            assert sink.avro is not None
            return avro_values.written(rows, names, sink.avro, vertex)
        case _:
            raise AssertionError(f"{sink.format} is no format of sinks")


def check_value(rows: DataFrame, sink: KafkaSink) -> None:
    """Refuses columns that cannot become the value: a raw value that is neither text nor bytes, or
    types that are not those of an Avro schema.
    """
    names = sink.value_columns(tuple(rows.columns))
    if sink.avro is not None:
        for fault in record_formats.avro_column_faults(sink.avro, names):
            raise VertexRefused(fault, "schema")
        avro_values.check_columns(rows, names, sink.avro)
    if sink.format is not RecordFormat.RAW:
        return
    if len(names) != 1:
        told = ", ".join(names)
        raise VertexRefused(f"format raw writes a single column, but there are {told}", "format")
    [name] = names
    found = rows.schema[name].dataType
    if not isinstance(found, StringType | BinaryType):
        raise VertexRefused(
            f"format raw needs a column of STRING or BINARY, but {name!r} is "
            f"{found.simpleString().upper()}: cast it in a map before the sink",
            "format",
        )


def _struct(schema: str) -> StructType:
    found = StructType.fromDDL(schema)
    assert isinstance(found, StructType)
    return found


def _raw(wanted: StructType) -> Column:
    kind: Any = wanted[0].dataType
    if isinstance(kind, BinaryType):
        return sql.col("value")
    if isinstance(kind, StringType):
        return sql.col("value").cast("string")
    raise VertexRefused(
        f"format raw gives one column of STRING or BINARY, not {kind.simpleString().upper()}",
        "schema",
    )


def _metadata(one: Metadata) -> Column:
    if one is Metadata.KEY:
        return sql.col("key").cast("string").alias("key")
    return sql.col(one.value)


def _side() -> list[Column]:
    """What `compile.late_rows` separates again: the side's name, and the record as it came."""
    record = sql.struct("value", "key", "topic", "partition", "offset", "timestamp")
    return [
        sql.when(sql.col(_BAD), sql.lit(Side.BAD.value)).alias(SIDE),
        sql.when(sql.col(_BAD), record).alias(SIDE_ROW),
    ]


def _is_good(source: KafkaSource, vertex: str) -> Column:
    if source.on_error is OnError.SKIP:
        return ~sql.col(_BAD)
    value = sql.col("value")
    readable = sql.hex(value) if source.format.is_avro else value.cast("string")
    text = sql.substring(readable, 1, _MOST_SHOWN)
    where = sql.concat_ws(
        " ",
        sql.lit(f"{UNREADABLE} {vertex}"),
        sql.col("topic"),
        sql.col("partition").cast("string"),
        sql.col("offset").cast("string"),
        sql.coalesce(text, sql.lit("")),
    )
    return sql.when(sql.col(_BAD), sql.raise_error(where).cast("boolean")).otherwise(sql.lit(True))
