"""Rows of a batch for sinks that write by key: one row for each key, and written by the tasks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from jobmanager.core.graph.connectors.keyed_sink import RowKey
from jobmanager.core.graph.connectors.table_mode import TableMode
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.core.store_failures import RowsWithoutKey, StoreFailure, raised
from taskrunner.spark.session.column_names import column

KEY, IS_DELETED, ROWS, DIFFERS = (
    f"__headgate_{one}" for one in ("key", "is_deleted", "rows", "differs")
)
_ROW, _ORDER, _HASH, _OTHER_HASH = (
    f"__headgate_{one}" for one in ("row", "order", "hash", "other_hash")
)
_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_SEPARATOR = ":"
_NOT_A_KEY = (ArrayType, BinaryType, MapType, StructType, VariantType)
_OUTCOME = "rows BIGINT, failure STRING, message STRING"
_OUTCOME_ARROW = pa.schema(
    [("rows", pa.int64()), ("failure", pa.string()), ("message", pa.string())]
)

PartitionWriter = Callable[[Iterator[Sequence[dict[str, Any]]]], None]
"""Writes the rows of one task, which come in pieces. Raises `StoreFailure`."""


def check_key(rows: DataFrame, key: RowKey) -> None:
    """Refuses columns that make no key. Raises `VertexRefused`."""
    for name in key.columns:
        kind = rows.schema[name].dataType
        if isinstance(kind, _NOT_A_KEY):
            raise VertexRefused(
                f"column {name!r} is {kind.simpleString().upper()}, which makes no key: choose a "
                "text, number, date or time, or cast it in a map before the sink",
                "key",
            )


def one_for_each_key(rows: DataFrame, key: RowKey, written: Sequence[Column]) -> DataFrame:
    """The last row of each key: `written`, and with it KEY, IS_DELETED, the number of ROWS that the
    key had, and whether one of them DIFFERS although nothing tells which is the last.
    """
    columns = [column(one) for one in rows.columns]
    # a map has no hash in Spark
    fields = [
        sql.to_json(sql.struct(column(one.name))) if _has_map(one.dataType) else column(one.name)
        for one in rows.schema.fields
    ]
    hashed = sql.xxhash64(*fields)
    order = [column(one) for one in key.order_by]
    marked = rows.select(
        _key_text(rows, key).alias(KEY),
        sql.struct(*columns).alias(_ROW),
        # rows that are equal in order_by: always the same of them, also when a batch is repeated
        sql.struct(*order, hashed.alias(_HASH)).alias(_ORDER),
        hashed.alias(_HASH),
    )
    last = marked.groupBy(KEY).agg(
        sql.max_by(_ROW, _ORDER).alias(_ROW),
        sql.count(sql.lit(1)).alias(ROWS),
        sql.min(_HASH).alias(_HASH),
        sql.max(_HASH).alias(_OTHER_HASH),
    )
    differs = sql.lit(False)
    if not order and key.mode is TableMode.UPSERT:
        differs = sql.col(_HASH) != sql.col(_OTHER_HASH)
    kept = last.select(KEY, ROWS, differs.alias(DIFFERS), f"{_ROW}.*")
    return kept.select(KEY, _is_deleted(key).alias(IS_DELETED), ROWS, DIFFERS, *written)


def text_of(name: str, kind: DataType) -> Column:
    """A column as text; bytes stay bytes."""
    found = column(name)
    match kind:
        case StringType() | BinaryType():
            return found
        case TimestampType():
            return sql.date_format(found, f"{_TIME}'Z'")  # sessions are in UTC
        case TimestampNTZType():
            return sql.date_format(found, _TIME)
        case ArrayType() | MapType() | StructType() | VariantType():
            return sql.to_json(found, {"timestampFormat": f"{_TIME}'Z'"})
        case _:
            return found.cast("string")


def json_of(columns: Sequence[str]) -> Column:
    """A JSON object with these columns, nulls included."""
    options = {"timestampFormat": f"{_TIME}'Z'", "ignoreNullFields": "false"}
    return sql.to_json(sql.struct(*(column(one) for one in columns)), options)


def write_in_tasks(rows: DataFrame, key: RowKey, write: PartitionWriter, where: str) -> int:
    """Lets each task write its rows (made by `one_for_each_key`); returns how many rows there were.
    `where` begins the messages about rows. Raises `StoreFailure`.
    """

    def task(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count, failure = 0, ("", "")

        def checked() -> Iterator[Sequence[dict[str, Any]]]:
            nonlocal count
            for piece in pieces:
                found = piece.to_pylist()
                _check(found, key, where)
                yield found
                count += sum(row[ROWS] for row in found)

        try:
            write(checked())
        except StoreFailure as error:
            failure = type(error).__name__, str(error)
        yield pa.record_batch([[count], [failure[0]], [failure[1]]], schema=_OUTCOME_ARROW)

    outcomes = rows.mapInArrow(task, _OUTCOME).collect()
    for one in outcomes:
        if one["failure"]:
            raise raised(one["failure"], one["message"])
    return sum(one["rows"] for one in outcomes)


def _check(rows: Sequence[dict[str, Any]], key: RowKey, where: str) -> None:
    named = ", ".join(key.columns)
    for row in rows:
        if row[KEY] is None:
            raise RowsWithoutKey(
                f"{where}: {row[ROWS]} rows have a null in the key ({named}): filter them out "
                "before the sink"
            )
        if row[DIFFERS]:
            raise RowsWithoutKey(
                f"{where}: {row[ROWS]} rows have the key {row[KEY]!r} ({named}) and differ: name "
                "the columns by which the last row of a key is known in order_by"
            )


def _key_text(rows: DataFrame, key: RowKey) -> Column:
    """The key as text; null: a column of it is null. Of several columns `%` and `:` are encoded, so
    that two keys are never the same text.
    """
    texts = [text_of(one, rows.schema[one].dataType) for one in key.columns]
    if len(texts) == 1:
        return texts[0]
    encoded = [
        sql.replace(
            sql.replace(one, sql.lit("%"), sql.lit("%25")), sql.lit(_SEPARATOR), sql.lit("%3A")
        )
        for one in texts
    ]
    parts = [encoded[0]]
    for one in encoded[1:]:
        parts += [sql.lit(_SEPARATOR), one]
    return sql.concat(*parts)  # null if any of them is


def _is_deleted(key: RowKey) -> Column:
    if key.mode is TableMode.DELETE:
        return sql.lit(True)
    if key.op_column is None:
        return sql.lit(False)
    return sql.coalesce(column(key.op_column).cast("string") == "d", sql.lit(False))


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    if isinstance(kind, StructType):
        return any(_has_map(one.dataType) for one in kind.fields)
    return isinstance(kind, MapType | VariantType)
