"""Connections to real databases without Spark: SQLite in the process, and Postgres by psycopg."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from taskrunner.sinks.sql_connection import Connect, DatabaseRefused, SqlConnection, SqlValue


class SqliteConnection:
    def __init__(self, opened: sqlite3.Connection) -> None:
        self._opened = opened

    def execute(self, statement: str, values: Sequence[SqlValue] = (), *, seconds: int = 0) -> int:
        try:
            return self._opened.execute(statement, tuple(values)).rowcount
        except sqlite3.Error as error:
            raise DatabaseRefused(f"{error}: {statement}") from error

    def query(self, statement: str, values: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        try:
            return list(self._opened.execute(statement, tuple(values)).fetchall())
        except sqlite3.Error as error:
            raise DatabaseRefused(f"{error}: {statement}") from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._opened.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._opened.execute("ROLLBACK")
            raise
        self._opened.execute("COMMIT")

    def columns(self, table: str) -> list[str]:
        found = [row[1] for row in self.query(f"PRAGMA table_info({table})")]
        if not found:
            raise DatabaseRefused(f"there is no table {table}")
        return found

    def tables(self, schema: str | None, prefix: str) -> list[str]:
        found = self.query("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [name for (name,) in found if name.lower().startswith(prefix)]

    def unique_keys(self, table: str) -> list[frozenset[str]]:
        keys = [frozenset(r[1] for r in self.query(f"PRAGMA table_info({table})") if r[5])]
        for row in self.query(f"PRAGMA index_list({table})"):
            if row[2]:
                columns = self.query(f"PRAGMA index_info({row[1]})")
                keys.append(frozenset(str(one[2]) for one in columns))
        return keys

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'


class PsycopgConnection:
    def __init__(self, opened: psycopg.Connection[Any]) -> None:
        self._opened = opened

    def execute(self, statement: str, values: Sequence[SqlValue] = (), *, seconds: int = 0) -> int:
        return self._run(statement, values).rowcount

    def query(self, statement: str, values: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        return self._run(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._opened.transaction():
            yield

    def columns(self, table: str) -> list[str]:
        described = self._run(f"SELECT * FROM {table} WHERE 1 = 0", ()).description
        return [one.name for one in described or ()]

    def tables(self, schema: str | None, prefix: str) -> list[str]:
        found = self.query(
            "SELECT tablename FROM pg_tables WHERE tablename LIKE ?", (f"{prefix}%",)
        )
        return [str(name) for (name,) in found]

    def unique_keys(self, table: str) -> list[frozenset[str]]:
        found = self.query(
            "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a "
            "ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
            f"WHERE i.indrelid = '{table}'::regclass AND i.indisunique GROUP BY i.indexrelid"
        )
        return [frozenset(names) for (names,) in found]

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def _run(self, statement: str, values: Sequence[SqlValue]) -> psycopg.Cursor[Any]:
        try:
            return self._opened.execute(
                statement.replace("%", "%%").replace("?", "%s").encode(), tuple(values)
            )
        except psycopg.Error as error:
            raise DatabaseRefused(f"{error} (SQLSTATE: {error.sqlstate})") from error


def to_sqlite(opened: sqlite3.Connection) -> Connect:
    """Connections to one SQLite database, which has to be opened with isolation_level None."""

    @contextmanager
    def connect() -> Iterator[SqlConnection]:
        yield SqliteConnection(opened)

    return connect


def to_postgres(url: str) -> Connect:
    @contextmanager
    def connect() -> Iterator[SqlConnection]:
        with psycopg.connect(url, autocommit=True) as opened:
            yield PsycopgConnection(opened)

    return connect
