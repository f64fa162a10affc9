"""The connector `jdbc`: tables of relational databases, read as a whole and written by batches."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Self

from jobmanager.core.graph.connectors.jdbc_url import (
    JdbcUrl,
    is_tuning_option,
    read_url,
)
from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.connectors.table_mode import TableMode
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.output_mode import OutputMode

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView
    from jobmanager.core.graph.vertex import Vertex

_PART = r'(?:[A-Za-z_][\w$]*|"[^"]+"|`[^`]+`|\[[^\]]+\])'
_TABLE = re.compile(rf"{_PART}(?:\.{_PART}){{0,2}}")
_OWN_OPTIONS = {
    "url": "url",
    "dbtable": "table",
    "query": "query",
    "user": "user",
    "password": "password",
    "driver": "driver",
    "partitioncolumn": "partition_column",
    "lowerbound": "lower",
    "upperbound": "upper",
    "numpartitions": "partitions",
    "fetchsize": "fetch_size",
    "batchsize": "batch_size",
    "customschema": "schema",
}
"""Options of Spark for which the vertex has fields, in lower case."""


@dataclass(frozen=True, slots=True)
class JdbcAccess:
    """Which database, as whom, and with which driver."""

    url: JdbcUrl
    user: str | None
    password: str | None
    """A reference `${secret:name}`, as far as users follow the advice."""
    driver: str | None
    """The driver's class; None: that which is known for this kind of database."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(
            read_url(fields),
            fields.text("user", "") or None,
            fields.text("password", "") or None,
            fields.text("driver", "") or None,
        )

    def code_in(self, options: Mapping[str, str]) -> str | None:
        if self.driver is not None:
            return "names the class of a JDBC driver, which runs code"
        if why := self.url.code_in():
            return why
        unknown = [one for one in options if not is_tuning_option(one)]
        return (
            f"has the option {unknown[0]!r}, which may make its driver run code"
            if unknown
            else None
        )


def check_options(vertex: "Vertex", options: Mapping[str, str], faults: Faults) -> None:
    for option in options:
        if field := _OWN_OPTIONS.get(option.lower()):
            faults.add(vertex.id, f"options.{option}", f"write this as the field `{field}`")


def _option_fault(option: str) -> str | None:
    if is_tuning_option(option):
        return None
    return (
        f"{option!r} is a property of the JDBC driver, which could lead elsewhere: on a server "
        "with allowed paths only Spark's own options of JDBC can be set"
    )


@dataclass(frozen=True, slots=True)
class JdbcSource(SourceConnector):
    name: ClassVar[str] = "jdbc"
    secret_fields: ClassVar[tuple[str, ...]] = ("user", "password")
    database: JdbcAccess
    table: str | None
    query: str | None
    """SQL of the database, instead of a table."""
    where: str | None
    """A condition in SQL of the database, which the database evaluates."""
    partition_column: str | None
    lower: str | None
    upper: str | None
    partitions: int | None
    fetch_size: int | None
    refresh: timedelta | None
    """In a stream: how long the rows are kept before they are read again; None: they are read in
    each batch.
    """

    @classmethod
    def read(cls, fields: Fields) -> Self:
        database = JdbcAccess.read(fields)
        table, query = fields.text("table", "") or None, fields.text("query", "") or None
        if (table is None) == (query is None):
            fields.fault("table", "a source reads a `table`, or a `query`: one of them is needed")
        _check_table(fields, table)
        found = cls(
            database,
            table,
            query,
            fields.text("where", "") or None,
            fields.text("partition_column", "") or None,
            _bound(fields, "lower"),
            _bound(fields, "upper"),
            fields.integer("partitions", None, least=1, most=1000),
            fields.integer("fetch_size", None, least=1),
            fields.duration("refresh") if fields.has("refresh") else None,
        )
        found._check_partitions(fields)
        return found

    def _check_partitions(self, fields: Fields) -> None:
        bounds = {
            "partition_column": self.partition_column,
            "lower": self.lower,
            "upper": self.upper,
            "partitions": self.partitions,
        }
        missing = [field for field, value in bounds.items() if value is None]
        if missing and len(missing) < len(bounds):
            fields.fault(
                missing[0],
                "missing: a read in parts needs partition_column, lower, upper and partitions",
            )

    def read_schema(self, fields: Fields) -> str | None:
        return fields.text("schema", "") or None

    def places(self) -> Iterator[tuple[str, str]]:
        yield "url", self.database.url.place

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return self.database.code_in(options)

    def option_fault(self, option: str, value: str) -> str | None:
        return _option_fault(option)

    @property
    def requires(self) -> tuple[str, ...]:
        return self.database.url.packages

    @property
    def can_be_static(self) -> bool:
        return True

    def has_end(self, mode: Mode) -> bool:
        return True

    @property
    def fault_in_a_stream(self) -> tuple[str, str] | None:
        return "connector", (
            "in a stream only the static side of a join (without within) can be a jdbc source: "
            "use mode: batch, or capture the table's changes into Kafka"
        )

    def check(self, vertex: "Vertex", graph: "GraphView", faults: Faults) -> None:
        check_options(vertex, getattr(vertex, "options", {}), faults)
        if self.refresh is not None and graph.mode is Mode.BATCH:
            faults.add(vertex.id, "refresh", "a batch job reads its sources once: leave this out")


@dataclass(frozen=True, slots=True)
class JdbcSink(SinkConnector):
    name: ClassVar[str] = "jdbc"
    secret_fields: ClassVar[tuple[str, ...]] = ("user", "password")
    database: JdbcAccess
    table: str
    table_mode: TableMode
    key: tuple[str, ...] = ()
    op_column: str | None = None
    """The column whose value `d` makes a row delete the row of its key, as in captured changes."""
    order_by: tuple[str, ...] = ()
    """Which of several rows of a key in one batch is the last."""
    batch_column: str | None = None
    """A column of the table that is to name the batch of each row, so that a restore can delete
    the rows of later batches.
    """
    staging_schema: str | None = None
    batch_size: int | None = None

    @classmethod
    def read(cls, fields: Fields) -> Self:
        database = JdbcAccess.read(fields)
        key = fields.names("key")
        table = fields.text("table")
        _check_table(fields, table)
        found = cls(
            database,
            table,
            fields.choice("mode", TableMode, TableMode.UPSERT if key else TableMode.APPEND),
            key,
            fields.text("op_column", "") or None,
            fields.names("order_by"),
            fields.text("batch_column", "") or None,
            fields.text("staging_schema", "") or None,
            fields.integer("batch_size", None, least=1),
        )
        found._check_mode(fields)
        return found

    def _check_mode(self, fields: Fields) -> None:
        mode = self.table_mode
        if mode is TableMode.APPEND and self.key:
            fields.fault("key", "appended rows have no key: leave this out, or use mode upsert")
        if mode is not TableMode.APPEND and not self.key:
            fields.fault("key", f"missing: the columns by which mode {mode} finds a row")
        if mode is not TableMode.APPEND and self.batch_column:
            fields.fault("batch_column", "this is for mode append: leave it out")
        for field, value in (("op_column", self.op_column), ("order_by", self.order_by)):
            if value and mode is not TableMode.UPSERT:
                fields.fault(field, f"this is for mode upsert, and the mode is {mode}")
        if self.op_column is not None and self.op_column in self.key:
            fields.fault("op_column", f"{self.op_column!r} is a column of the key")

    def read_mode(self, fields: Fields) -> OutputMode | None:
        if not fields.has("output_mode"):
            return None
        return fields.choice("output_mode", OutputMode)

    def places(self) -> Iterator[tuple[str, str]]:
        yield "url", self.database.url.place

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return self.database.code_in(options)

    def option_fault(self, option: str, value: str) -> str | None:
        return _option_fault(option)

    @property
    def requires(self) -> tuple[str, ...]:
        return self.database.url.packages

    @property
    def guarantee(self) -> str:
        return "exactly once"

    @property
    def is_fenced(self) -> bool:
        return True

    def exclusive_output(self, normal: Callable[[str], str]) -> str | None:
        return f"table {self.table} of {self.database.url.place}"

    @property
    def fault_in_complete_mode(self) -> str | None:
        if self.table_mode is TableMode.UPSERT:
            return None
        return "a complete result in each batch needs mode upsert, which replaces rows by key"

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        yield from (("key", column) for column in self.key)
        yield from (("order_by", column) for column in self.order_by)
        if self.op_column is not None:
            yield "op_column", self.op_column

    def check(self, vertex: "Vertex", graph: "GraphView", faults: Faults) -> None:
        check_options(vertex, getattr(vertex, "options", {}), faults)
        if graph.mode is Mode.BATCH or self.table_mode is not TableMode.APPEND:
            return
        for one in graph.behind(vertex.id):
            if one.emits_updates:
                faults.add(
                    vertex.id,
                    "mode",
                    f"the results of {one.id!r} change, and appended rows never do: use mode "
                    "upsert with the key of these results",
                )


def _check_table(fields: Fields, table: str | None) -> None:
    if table and not _TABLE.fullmatch(table):
        fields.fault(
            "table", f"{table!r} is not the name of a table, such as orders or shop.orders"
        )


def _bound(fields: Fields, field: str) -> str | None:
    """Read a bound of the partition column: a number, a date or a time."""
    value = fields.raw(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
        fields.fault(field, f"{value!r} is not a whole number, a date or a time")
        return None
    return str(value)


SOURCES = (JdbcSource,)
SINKS = (JdbcSink,)
