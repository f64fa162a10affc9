"""Sends columns between Spark and a Python operator without loss.

pandas has no null for most types: it turns integers into floating-point numbers, and null into
NaN. So numbers, booleans and times are sent without nulls, together with bits that say which
values are null. Times are sent as microseconds, dates as days.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from taskrunner.keyed.windows.spec import SentColumn

_BITS = 62
_TIMES = (types.TimestampType, types.TimestampNTZType)
_NESTED = (types.ArrayType, types.StructType, types.MapType)
_WITHOUT_NULL = (types.NumericType, types.BooleanType, *_TIMES, types.DateType)


class TransportedColumns:
    """Columns that go to Python together."""

    def __init__(self) -> None:
        self._sent: list[Column] = []
        self._is_null: list[Column] = []

    def put(self, value: Column, kind: types.DataType, null: int = 0) -> SentColumn:
        """Adds a column; `null` is the placeholder for nulls."""
        name = f"c{len(self._sent)}"
        sent = encoded(value, kind)
        if not _has_stand_in(kind):
            self._sent.append(sent.alias(name))
            return SentColumn(name, None, isinstance(kind, _NESTED))
        self._sent.append(sql.coalesce(sent, sql.lit(null).cast(encoded_type(kind))).alias(name))
        bit = len(self._is_null)
        self._is_null.append(value.isNull())
        return SentColumn(name, (_bits_name(bit // _BITS), bit % _BITS))

    def of(self, rows: DataFrame) -> DataFrame:
        return rows.select(*self._sent, *self._bits())

    def _bits(self) -> Sequence[Column]:
        found: list[Column] = []
        for first in range(0, len(self._is_null), _BITS):
            bits = sql.lit(0).cast("bigint")
            for at, is_null in enumerate(self._is_null[first : first + _BITS]):
                bits = bits.bitwiseOR(sql.when(is_null, sql.lit(1 << at)).otherwise(sql.lit(0)))
            found.append(bits.cast("bigint").alias(_bits_name(first // _BITS)))
        return found


def original(column: SentColumn) -> Column:
    """The original value, with its nulls, as an expression over the sent columns."""
    value = sql.col(column.name)
    if column.null_bit is None:
        return value
    name, bit = column.null_bit
    return sql.when(sql.col(name).bitwiseAND(sql.lit(1 << bit)) == 0, value)


def encoded(value: Column, kind: types.DataType) -> Column:
    match kind:
        case types.TimestampType():
            return sql.unix_micros(value)
        case types.TimestampNTZType():
            return sql.unix_micros(value.cast("timestamp"))
        case types.DateType():
            return sql.unix_date(value)
        case types.ArrayType() if encoded_type(kind) != kind:
            return sql.transform(value, lambda one: encoded(one, kind.elementType))
        case _:
            return value


def decoded(value: Column, kind: types.DataType) -> Column:
    """The reverse of `encoded`."""
    match kind:
        case types.TimestampType():
            return sql.timestamp_micros(value)
        case types.TimestampNTZType():
            return sql.timestamp_micros(value).cast("timestamp_ntz")
        case types.DateType():
            return sql.date_from_unix_date(value)
        case types.ArrayType() if encoded_type(kind) != kind:
            return sql.transform(value, lambda one: decoded(one, kind.elementType))
        case _:
            return value


def encoded_type(kind: types.DataType) -> types.DataType:
    match kind:
        case types.TimestampType() | types.TimestampNTZType():
            return types.LongType()
        case types.DateType():
            return types.IntegerType()
        case types.ArrayType():
            return types.ArrayType(encoded_type(kind.elementType), kind.containsNull)
        case _:
            return kind


def is_nested(kind: types.DataType) -> bool:
    return isinstance(kind, _NESTED)


def is_time(kind: types.DataType) -> bool:
    return isinstance(kind, _TIMES)


def _has_stand_in(kind: types.DataType) -> bool:
    return isinstance(kind, _WITHOUT_NULL) and not isinstance(kind, types.DecimalType)


def _bits_name(number: int) -> str:
    return f"n{number}"
