"""Reads keyed state out of a Spark checkpoint directory, with Spark's own state reader.

Spark has no index into state: reading a row means reading its partition, or all partitions
if the partition is not known. Partitions that are not needed are not read at all: the Spark job
runs on the others only.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, SparkSession, types
from pyspark.sql import functions as sql

from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId
from taskrunner.core import state_key
from taskrunner.core.state_key import InvalidKey, Key
from taskrunner.core.state_names import NamedState, Store, named_states
from taskrunner.core.state_view import Column, Field, StateView, view_of
from taskrunner.spark.session.hadoop_path import hadoop_path

_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
_TIME_OF_ROW = "__event_time"
"""Ends the key of a row in the state of a join: rows are in the order of their times."""
_AT_ONCE = 2
"""How many partitions a scan reads in parallel."""


class UncountableState(Exception):
    """Spark does not report how this state is distributed over partitions."""


@dataclass(frozen=True, slots=True)
class FoundRow:
    key: dict[str, Any]
    value: dict[str, Any]
    key_group: int | None
    partition: int


@dataclass(frozen=True, slots=True)
class Page:
    rows: list[FoundRow]
    next: tuple[int, int] | None
    """The partition, and how many of its rows were returned; None: there are no more rows."""


@dataclass(frozen=True, slots=True)
class GroupCount:
    key_group: int | None
    partition: int
    rows: int
    bytes: int


@lru_cache(maxsize=32)
def states_of(
    spark: SparkSession, directory: Path, keyed: tuple[VertexId, ...]
) -> list[NamedState]:
    """The states in a directory that does not change, given the keyed vertex of each operator."""
    found = spark.read.format("state-metadata").load(hadoop_path(directory)).collect()
    stores = [
        Store(
            row["operatorId"],
            row["operatorName"],
            row["stateStoreName"],
            row["numPartitions"],
            row["operatorProperties"],
        )
        for row in found
    ]
    return named_states(stores, keyed)


class StateReader:
    """Reads one state at one batch."""

    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        batch: int,
        state: NamedState,
        vertex: Vertex | None,
        partitions: int,
        key_groups: int,
    ) -> None:
        self._spark = spark
        self._directory = directory
        self._batch = batch
        self._state = state
        self._vertex = vertex
        self._partitions = partitions
        self._key_groups = key_groups

    @cached_property
    def view(self) -> StateView:
        value = _fields(self._state_rows.schema["value"].dataType)
        return view_of(self._key_fields, value, self._spread_by, self._vertex)

    @property
    def schemas(self) -> tuple[str, str]:
        """Spark's own schemas of key and value, as DDL."""
        key, value = (
            ", ".join(f"{field.name} {field.type}" for field in _fields(rows.dataType))
            for rows in (self._state_rows.schema[name] for name in ("key", "value"))
        )
        return key, value

    def page(self, key: str | None, partition: int, skip: int, limit: int) -> Page:
        """The next rows in the order of partition and key. Raises `InvalidKey`."""
        wanted = None if key is None else self._checked(state_key.parse(key, self.view))
        only = None if wanted is None else self._partition_of(wanted)
        ahead = list(range(self._partitions)) if only is None else [only]
        rows = self._shown(wanted).sortWithinPartitions("order").drop("order")
        return self._take(rows, [one for one in ahead if one >= partition], skip, limit)

    def count_groups(self) -> list[GroupCount]:
        """How many rows and bytes each key group has; empty key groups are left out."""
        if "joinSide" in self._state.options:
            raise UncountableState("Spark does not say how large one side of a join is")
        rows = self._raw_rows
        if self._state.column_family is not None:
            rows = rows.where(sql.col("column_family_name") == self._state.column_family)
        hashed = [f"partition_key.`{name}`" for name in self._spread_by or ()]
        counted = (
            rows.select(
                self._group_of(hashed).alias("key_group"),
                sql.spark_partition_id().alias("partition"),
                (sql.length("key_bytes") + sql.length("value_bytes")).alias("bytes"),
            )
            .groupBy("key_group", "partition")
            .agg(sql.count("*").alias("rows"), sql.sum("bytes").alias("bytes"))
            .orderBy("key_group", "partition")
        )
        return [
            GroupCount(row["key_group"], row["partition"], row["rows"], row["bytes"])
            for row in counted.collect()
        ]

    def _take(self, rows: DataFrame, ahead: Sequence[int], skip: int, limit: int) -> Page:
        found: list[FoundRow] = []
        for chunk in _chunks(ahead):
            skipped = skip if chunk[0] == ahead[0] else 0
            # one more than requested, to know whether there is a next page
            for row in self._run(rows, chunk, skipped, limit + 1 - len(found)):
                if len(found) == limit:
                    return Page(found, _next(found, row.partition, skip, ahead[0]))
                found.append(row)
        return Page(found, None)

    def _run(
        self, rows: DataFrame, partitions: Sequence[int], skip: int, limit: int
    ) -> Iterator[FoundRow]:
        """The first rows of each of the partitions, after those to skip."""

        def take(rows: Iterable[Any]) -> list[Any]:  # runs in a worker, without this package
            return list(islice(rows, skip, skip + limit))

        for row in self._spark.sparkContext.runJob(rows.rdd, take, list(partitions)):
            key, value = json.loads(row["key"]), json.loads(row["value"])
            yield FoundRow(key, value, row["key_group"], row["partition"])

    def _shown(self, key: Key | None) -> DataFrame:
        rows = _renamed(self._state_rows)
        for name, text in (key or {}).items():
            column = next(one for one in self.view.key if one.name == name)
            rows = rows.where(sql.expr(column.expression).eqNullSafe(_literal(column, text)))
        return rows.select(
            _json(rows, self.view.key).alias("key"),
            _json(rows, self.view.value).alias("value"),
            self._group_of(self.view.hashed or ()).alias("key_group"),
            sql.col("partition_id").alias("partition"),
            sql.col("key").alias("order"),
        )

    def _group_of(self, hashed: Sequence[str]) -> SparkColumn:
        if not hashed:
            return sql.lit(None).cast("int")
        return sql.expr(f"pmod(hash({', '.join(hashed)}), {self._key_groups})")

    def _checked(self, key: Key) -> Key:
        """The key, after a check that every value can be cast. Raises `InvalidKey`."""
        given = [(one, key[one.name]) for one in self.view.key if key.get(one.name) is not None]
        if given:
            [row] = self._constants([_literal(column, text) for column, text in given])
            for (column, text), value in zip(given, row, strict=True):
                if value is None:
                    raise InvalidKey(
                        f"{text!r} is no {column.type}: {state_key.what_a_key_is(self.view)}"
                    )
        return key

    def _partition_of(self, key: Key) -> int | None:
        """The only partition that can hold the key; None: any partition may hold it."""
        complete = state_key.with_window_end(key, self.view.window_ms)
        hashed = self.view.hashed_columns
        if hashed is None or any(name not in complete for names in hashed for name in names):
            return None
        columns = {one.name: one for one in self.view.key}
        inputs = [
            _hash_input([_literal(columns[name], complete[name]) for name in names])
            for names in hashed
        ]
        [row] = self._constants([sql.pmod(sql.hash(*inputs), sql.lit(self._partitions))])
        return int(row[0])

    def _constants(self, columns: Sequence[SparkColumn]) -> list[Row]:
        return self._spark.sql("SELECT 1").select(*columns).collect()

    @cached_property
    def _spread_by(self) -> list[str] | None:
        """The key fields that Spark hashes; empty: all state is in one partition."""
        if "joinSide" in self._state.options:
            return [field.name for field in self._key_fields]
        key = self._raw_rows.schema["partition_key"].dataType
        return [field.name for field in _fields(key)]

    @cached_property
    def _key_fields(self) -> tuple[Field, ...]:
        found = _fields(self._state_rows.schema["key"].dataType)
        return tuple(one for one in found if one.name != _TIME_OF_ROW)

    @cached_property
    def _state_rows(self) -> DataFrame:
        return self._load(self._state.options)

    @cached_property
    def _raw_rows(self) -> DataFrame:
        """Keys and values as bytes, with the part of the key that Spark hashes."""
        options = {k: v for k, v in self._state.options.items() if k != "stateVarName"}
        return self._load({**options, "_readAllColumnFamilies": "true"})

    def _load(self, options: Any) -> DataFrame:
        reader = self._spark.read.format("statestore").options(**options)
        return reader.option("batchId", self._batch).load(hadoop_path(self._directory))


def _chunks(ahead: Sequence[int]) -> Iterator[Sequence[int]]:
    """The first partition by itself, since some of its rows may be skipped; the others in pairs."""
    yield from ([one] for one in ahead[:1])
    yield from (ahead[at : at + _AT_ONCE] for at in range(1, len(ahead), _AT_ONCE))


def _next(found: Sequence[FoundRow], partition: int, skip: int, first: int) -> tuple[int, int]:
    """Where the next page begins: in `partition`, after the rows found there."""
    seen = sum(1 for one in found if one.partition == partition)
    return partition, seen + (skip if partition == first else 0)


def _renamed(rows: DataFrame) -> DataFrame:
    """The frame with fields `c0`, `c1`, … in both structs, because Spark's names may repeat."""
    structs = []
    for name in ("key", "value"):
        fields = _struct(rows.schema[name].dataType).fields
        renamed = [
            types.StructField(f"c{at}", field.dataType, True) for at, field in enumerate(fields)
        ]
        structs.append(sql.col(name).cast(types.StructType(renamed)).alias(name))
    return rows.select(*structs, "partition_id")


def _json(rows: DataFrame, columns: Sequence[Column]) -> SparkColumn:
    """The columns as a JSON object."""
    if not columns:
        return sql.lit("{}")
    whole = sql.struct(*(sql.expr(one.expression).alias(one.name) for one in columns))
    kind = rows.select(whole.alias("whole")).schema["whole"].dataType
    return sql.to_json(whole.cast(_printable(kind)), _JSON)


def _printable(kind: types.DataType) -> types.DataType:
    """Converts to a type that JSON holds without loss: decimals become texts."""
    match kind:
        case types.DecimalType() | types.NullType():
            return types.StringType()
        case types.StructType():
            return types.StructType(
                [types.StructField(one.name, _printable(one.dataType), True) for one in kind]
            )
        case types.ArrayType():
            return types.ArrayType(_printable(kind.elementType), True)
        case types.MapType():
            return types.MapType(_printable(kind.keyType), _printable(kind.valueType), True)
        case _:
            return kind


def _literal(column: Column, text: str | None) -> SparkColumn:
    """A value of a key column; null if the text cannot be cast to its type."""
    if text is None:
        return sql.lit(None).cast(column.type)
    if column.type.upper() == "BINARY":
        return sql.try_to_binary(sql.lit(text), sql.lit("base64"))
    return sql.lit(text).try_cast(column.type)


def _hash_input(values: Sequence[SparkColumn]) -> SparkColumn:
    if len(values) == 1:
        return values[0]
    start, end = values
    return sql.struct(start.alias("start"), end.alias("end"))


def _fields(kind: types.DataType) -> tuple[Field, ...]:
    return tuple(
        Field(
            field.name,
            _ddl(field.dataType),
            _fields(field.dataType) if isinstance(field.dataType, types.StructType) else (),
        )
        for field in _struct(kind).fields
    )


def _ddl(kind: types.DataType) -> str:
    is_nested = isinstance(kind, types.StructType | types.ArrayType | types.MapType)
    return kind.simpleString() if is_nested else kind.simpleString().upper()


def _struct(kind: types.DataType) -> types.StructType:
    assert isinstance(kind, types.StructType), kind
    return kind
