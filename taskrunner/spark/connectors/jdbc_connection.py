"""Connections of the driver to a database: java.sql over py4j, with the same driver and the same
properties as Spark's own connections on executors.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from taskrunner.sinks.sql_connection import DatabaseRefused, SqlConnection, SqlValue

_MOST_ROWS = 10_000
_VALID_SECONDS = 5


@dataclass(frozen=True, slots=True)
class JdbcOptions:
    """How a database is reached. The properties may hold a password: never to be shown."""

    url: str
    properties: Mapping[str, str]
    """`user`, `password`, `driver` and whatever else the driver knows."""

    def for_spark(self, **more: str) -> dict[str, str]:
        return {**self.properties, "url": self.url, **more}


class JdbcDatabase:
    """One database, with a connection that is kept from one use to the next."""

    def __init__(
        self, spark: SparkSession, options: JdbcOptions, at_start: Sequence[str] = ()
    ) -> None:
        self._jvm: Any = spark._jvm
        self._options = options
        self._at_start = at_start
        self._kept: Any = None

    @contextmanager
    def connect(self) -> Iterator[SqlConnection]:
        """A connection of which each statement is committed at once. Raises `DatabaseRefused`."""
        connection = self._usable() or self._open()
        self._kept = None
        try:
            yield JdbcConnection(connection)
        except BaseException:
            _close(connection)
            raise
        self._kept = connection

    def close(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            _close(kept)

    def _usable(self) -> Any:
        """The connection that was kept, unless the database or the network has ended it."""
        kept, self._kept = self._kept, None
        if kept is None:
            return None
        with suppress(Py4JError):
            if kept.isValid(_VALID_SECONDS):
                return kept
        _close(kept)
        return None

    def _open(self) -> Any:
        options = self._options.for_spark(dbtable="headgate")
        with _refusals(f"no connection to {shown_url(self._options.url)}"):
            jdbc = self._jvm.org.apache.spark.sql.execution.datasources.jdbc
            made = jdbc.JDBCOptions(self._jvm.PythonUtils.toScalaMap(options))
            dialect = self._jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self._options.url)
            connection = dialect.createConnectionFactory(made).apply(-1)
            connection.setAutoCommit(True)
            opened = JdbcConnection(connection)
            for statement in self._at_start:
                opened.execute(statement)
        return connection


class JdbcConnection:
    """A java.sql.Connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[SqlValue] = (), *, seconds: int = 0) -> int:
        with self._prepared(statement, values, seconds) as prepared:
            return int(prepared.executeUpdate())

    def query(self, statement: str, values: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        with self._prepared(statement, values) as prepared:
            prepared.setMaxRows(_MOST_ROWS)
            found = prepared.executeQuery()
            numbers = range(1, found.getMetaData().getColumnCount() + 1)
            rows = []
            while found.next():
                rows.append(tuple(_value(found.getObject(number)) for number in numbers))
            return rows

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with _refusals("BEGIN"):
            self._connection.setAutoCommit(False)
        try:
            yield
        except BaseException:
            with suppress(Py4JError):
                self._connection.rollback()
                self._connection.setAutoCommit(True)
            raise
        with _refusals("COMMIT"):
            self._connection.commit()
            self._connection.setAutoCommit(True)

    def columns(self, table: str) -> list[str]:
        with self._prepared(f"SELECT * FROM {table} WHERE 1 = 0") as prepared:
            described = prepared.executeQuery().getMetaData()
            numbers = range(1, described.getColumnCount() + 1)
            return [str(described.getColumnName(number)) for number in numbers]

    def tables(self, schema: str | None, prefix: str) -> list[str]:
        with _refusals("list of tables"):
            metadata = self._connection.getMetaData()
            pattern = prefix.upper() if metadata.storesUpperCaseIdentifiers() else prefix
            catalog = self._connection.getCatalog()
            found = metadata.getTables(catalog, self._stored(metadata, schema), f"{pattern}%", None)
            names = []
            while found.next():
                names.append(str(found.getString("TABLE_NAME")))
        return [name for name in names if name.lower().startswith(prefix.lower())]

    def unique_keys(self, table: str) -> list[frozenset[str]]:
        before, _, name = table.rpartition(".")
        with _refusals(f"indexes of {table}"):
            metadata = self._connection.getMetaData()
            schema = self._stored(metadata, before) or self._schema()
            catalog, stored = self._connection.getCatalog(), self._stored(metadata, name)
            keys: dict[str, set[str]] = {}
            for found in (
                metadata.getIndexInfo(catalog, schema, stored, True, False),
                metadata.getPrimaryKeys(catalog, schema, stored),
            ):
                is_index = found.getMetaData().getColumnCount() > 6
                while found.next():
                    index = found.getString("INDEX_NAME" if is_index else "PK_NAME")
                    column = found.getString("COLUMN_NAME")
                    if column is not None:
                        keys.setdefault(f"{is_index} {index}", set()).add(str(column).strip('"'))
        return [frozenset(columns) for columns in keys.values()]

    def quoted(self, name: str) -> str:
        with _refusals("metadata"):
            mark = str(self._connection.getMetaData().getIdentifierQuoteString()).strip()
        return f"{mark}{name.replace(mark, mark * 2)}{mark}" if mark else name

    def _schema(self) -> str | None:
        try:
            found = self._connection.getSchema()
        except Py4JError:
            return None  # a driver of before JDBC 4.1
        return None if found is None else str(found)

    def _stored(self, metadata: Any, name: str | None) -> str | None:
        """A name as the database's catalogue has it."""
        if not name:
            return None
        if name[0] in '"`[':
            return name[1:-1]
        if metadata.storesUpperCaseIdentifiers():
            return name.upper()
        return name.lower() if metadata.storesLowerCaseIdentifiers() else name

    @contextmanager
    def _prepared(
        self, statement: str, values: Sequence[SqlValue] = (), seconds: int = 0
    ) -> Iterator[Any]:
        with _refusals(statement):
            prepared = self._connection.prepareStatement(statement)
            try:
                for number, value in enumerate(values, 1):
                    if isinstance(value, str):
                        prepared.setString(number, value)
                    else:
                        prepared.setLong(number, value)
                if seconds:
                    prepared.setQueryTimeout(seconds)
                yield prepared
            finally:
                with suppress(Py4JError):
                    prepared.close()


def shown_url(url: str) -> str:
    """A URL without its parameters, which may hold a password, and without a user's name."""
    bare = url.split("?", 1)[0].split(";", 1)[0]
    before, at, after = bare.rpartition("@")
    return f"{before.split('//', 1)[0]}//{after}" if at and "//" in before else bare


@contextmanager
def _refusals(doing: str) -> Iterator[None]:
    """Turns errors of java.sql into `DatabaseRefused`, with the SQLSTATE that classifies them."""
    try:
        yield
    except Py4JJavaError as error:
        raise DatabaseRefused(_message(error.java_exception, doing)) from error


def _message(error: Any, doing: str) -> str:
    state = None
    with suppress(Py4JError, AttributeError, TypeError):
        state = error.getSQLState()
    text = str(error.getMessage() or error.toString())
    told = f" (SQLSTATE: {state})" if state else ""
    return f"{text}{told}, at: {doing[:500]}"


def _value(found: Any) -> Any:
    """Plain values as they are, others as text."""
    if found is None or isinstance(found, bool | int | float | str):
        return found
    return str(found.toString()) if hasattr(found, "toString") else str(found)


def _close(connection: Any) -> None:
    with suppress(Py4JError):
        connection.close()
