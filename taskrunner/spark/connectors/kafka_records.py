"""The values of Kafka records as columns, and rows as records."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StringType, StructType

from jobmanager.core.graph.connectors.kafka import (
    KafkaSink,
    KafkaSource,
    Metadata,
    OnError,
    RecordFormat,
)
from jobmanager.core.graph.inputs import Side
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.core.kafka_failures import UNREADABLE
from taskrunner.keyed.windows.spec import SIDE, SIDE_ROW
from taskrunner.spark.connectors.reading import unreadable_metric

_ROW, _BAD, _CORRUPT = "__headgate_decoded", "__headgate_bad", "__headgate_corrupt"
_MOST_SHOWN = 200
_HEADERS = "array<struct<key:string,value:binary>>"


def decoded(
    records: DataFrame, vertex: str, source: KafkaSource, schema: str, options: Mapping[str, str]
) -> DataFrame:
    """The rows in Kafka's records, with the metadata that the source asks for."""
    added = [_metadata(one) for one in source.metadata]
    wanted = _struct(schema)
    if source.format is RecordFormat.RAW:
        return records.select(_raw(wanted).alias(wanted.fieldNames()[0]), *added)
    text = sql.col("value").cast("string")
    marked = f"{schema}, {_CORRUPT} STRING"
    reading = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parse = sql.from_json if source.format is RecordFormat.JSON else sql.from_csv
    kept = [sql.col(name) for name in ("topic", "partition", "offset", "timestamp", "key")]
    headers = [sql.col("headers")] if Metadata.HEADERS in source.metadata else []
    parsed = records.select(
        "value",
        *kept,
        *headers,
        parse(text, marked, reading).alias(_ROW),
    )
    is_bad = sql.col(_ROW).isNull() | sql.col(f"{_ROW}.{_CORRUPT}").isNotNull()
    counted = parsed.withColumn(_BAD, is_bad).observe(
        unreadable_metric(vertex), sql.count_if(sql.col(_BAD)).alias("bad")
    )
    columns = [sql.col(f"{_ROW}.`{name}`").alias(name) for name in wanted.fieldNames()]
    if source.on_error is OnError.SIDE:
        return counted.select(*columns, *added, *_side())
    good = counted.where(_is_good(source.on_error, vertex))
    return good.select(*columns, *added)


def encoded(rows: DataFrame, sink: KafkaSink, own: Mapping[str, Column]) -> DataFrame:
    """Rows as records: key, value and headers, those of the sink and `own` ones."""
    headers = [
        _header(name, sql.col(f"`{name}`").cast("string").cast("binary")) for name in sink.headers
    ]
    value = _value(rows, sink)
    key = sql.lit(None) if sink.key is None else sql.col(f"`{sink.key}`").cast("string")
    made = rows.select(key.cast("binary").alias("key"), value.alias("value"), *_named(headers))
    extra = [_header(name, column.cast("binary")) for name, column in own.items()]
    # without any header the array has no type of its own
    all_headers = sql.array(*_columns(made), *extra).cast(_HEADERS)
    return made.select("key", "value", all_headers.alias("headers"))


def _named(headers: list[Column]) -> list[Column]:
    return [one.alias(f"header{number}") for number, one in enumerate(headers)]


def _columns(made: DataFrame) -> list[Column]:
    return [sql.col(name) for name in made.columns if name.startswith("header")]


def _header(name: str, value: Column) -> Column:
    return sql.struct(sql.lit(name).alias("key"), value.alias("value"))


def _value(rows: DataFrame, sink: KafkaSink) -> Column:
    names = sink.value_columns(tuple(rows.columns))
    columns = [sql.col(f"`{name}`") for name in names]
    match sink.format:
        case RecordFormat.JSON:
            return sql.to_json(sql.struct(*columns)).cast("binary")
        case RecordFormat.CSV:
            return sql.to_csv(sql.struct(*columns)).cast("binary")
        case RecordFormat.RAW:
            return columns[0].cast("binary")


def check_value(rows: DataFrame, sink: KafkaSink) -> None:
    """Refuses a column that is to be the raw value and is neither text nor bytes."""
    if sink.format is not RecordFormat.RAW:
        return
    names = sink.value_columns(tuple(rows.columns))
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


def _is_good(on_error: OnError, vertex: str) -> Column:
    if on_error is OnError.SKIP:
        return ~sql.col(_BAD)
    text = sql.substring(sql.col("value").cast("string"), 1, _MOST_SHOWN)
    where = sql.concat_ws(
        " ",
        sql.lit(f"{UNREADABLE} {vertex}"),
        sql.col("topic"),
        sql.col("partition").cast("string"),
        sql.col("offset").cast("string"),
        sql.coalesce(text, sql.lit("")),
    )
    return sql.when(sql.col(_BAD), sql.raise_error(where).cast("boolean")).otherwise(sql.lit(True))
