"""The SQL of a sink that writes to a table of a database: text, made of names.

A batch is first in a staging table, and then goes to its target in one transaction. How a database
adds or changes rows by key is the only real difference between databases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from jobmanager.core.graph.connectors.table_mode import TableMode

_NUMBER = "headgate_n"


class UpsertStyle(StrEnum):
    """The statement with which a database adds or changes rows by key."""

    ON_CONFLICT = "on conflict"
    ON_DUPLICATE_KEY = "on duplicate key"
    MERGE = "merge"
    UPDATE_AND_INSERT = "update and insert"
    """Two plain statements, which every database has."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What has to be known of a kind of database."""

    name: str
    upsert: UpsertStyle = UpsertStyle.UPDATE_AND_INSERT
    create_staging: str = "CREATE TABLE {staging} AS {select}"
    ends_merge: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of all connections."""
    at_start: tuple[str, ...] = ()
    """Statements for the start of the driver's connections."""
    driver: str | None = None
    """The class of the JDBC driver; None: the user has to name it."""

    @property
    def needs_unique_key(self) -> bool:
        """Whether an upsert works only with a unique index on exactly its key."""
        return self.upsert in (UpsertStyle.ON_CONFLICT, UpsertStyle.ON_DUPLICATE_KEY)


_WITH_NO_DATA = "CREATE TABLE {staging} AS {select} WITH NO DATA"
_DIALECTS: Mapping[str, Dialect] = {
    "postgresql": Dialect(
        "Postgres",
        UpsertStyle.ON_CONFLICT,
        # no log is written: a batch whose staging table is lost in a crash is noticed by its count
        "CREATE UNLOGGED TABLE {staging} AS {select}",
        # texts become what the column is: uuid, jsonb, an enum
        properties={"reWriteBatchedInserts": "true", "stringtype": "unspecified"},
        # a driver that stands still in a transaction must not keep its successor out for ever
        at_start=(
            "SET idle_in_transaction_session_timeout = '2min'",
            "SET lock_timeout = '5min'",
        ),
        driver="org.postgresql.Driver",
    ),
    "sqlite": Dialect("SQLite", UpsertStyle.ON_CONFLICT, driver="org.sqlite.JDBC"),
    "mysql": Dialect(
        "MySQL",
        UpsertStyle.ON_DUPLICATE_KEY,
        properties={"rewriteBatchedStatements": "true"},
        driver="com.mysql.cj.jdbc.Driver",
    ),
    "mariadb": Dialect("MariaDB", UpsertStyle.ON_DUPLICATE_KEY, driver="org.mariadb.jdbc.Driver"),
    "h2": Dialect("H2", UpsertStyle.MERGE, driver="org.h2.Driver"),
    "oracle": Dialect("Oracle", UpsertStyle.MERGE, driver="oracle.jdbc.OracleDriver"),
    "sqlserver": Dialect(
        "SQL Server",
        UpsertStyle.MERGE,
        "SELECT * INTO {staging} FROM ({select}) headgate_empty",
        ends_merge=";",
        driver="com.microsoft.sqlserver.jdbc.SQLServerDriver",
    ),
    "db2": Dialect("Db2", UpsertStyle.MERGE, _WITH_NO_DATA, driver="com.ibm.db2.jcc.DB2Driver"),
    "derby": Dialect(
        "Derby",
        create_staging=_WITH_NO_DATA,
        driver="org.apache.derby.iapi.jdbc.AutoloadedDriver",
    ),
}


def dialect_of(url: str) -> Dialect:
    """The dialect that the second part of a URL (`jdbc:postgresql://…`) names; plain SQL for
    databases that are not known.
    """
    parts = url.split(":", 2)
    name = parts[1].lower() if len(parts) > 1 else ""
    return _DIALECTS.get(name, Dialect(name or "the database"))


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A staging table and its target. The columns are quoted names, as the database has them."""

    staging: str
    target: str
    columns: tuple[str, ...]
    """Those that are written to the target, the key among them."""
    key: tuple[str, ...] = ()
    op: str | None = None
    """The column that says with `d` that a row deletes the row of its key."""
    order_by: tuple[str, ...] = ()
    """Of several rows of a key in a batch the greatest counts. (): they must be the same."""

    @property
    def staged_columns(self) -> tuple[str, ...]:
        extra = (*((self.op,) if self.op else ()), *self.order_by)
        return tuple(dict.fromkeys((*self.columns, *extra)))

    @property
    def others(self) -> tuple[str, ...]:
        """The written columns that are not of the key."""
        return tuple(one for one in self.columns if one not in self.key)


@dataclass(frozen=True, slots=True)
class Tag:
    """A column of the target that names the batch of each row, and the name of a batch."""

    column: str
    value: str


def create_staging(dialect: Dialect, table: StagedTable) -> str:
    """An empty table with the types of the target's columns. Columns that only the staging table
    has are added afterwards (`add_column`).
    """
    select = f"SELECT {_list(table.columns)} FROM {table.target}"
    if "NO DATA" not in dialect.create_staging:
        select += " WHERE 1 = 0"
    return dialect.create_staging.format(staging=table.staging, select=select)


def add_column(staging: str, definition: str) -> str:
    return f"ALTER TABLE {staging} ADD {definition}"


def rows_without_key(table: StagedTable) -> str:
    """Counts staged rows whose key has a null."""
    missing = " OR ".join(f"{one} IS NULL" for one in table.key)
    return f"SELECT COUNT(*) FROM {table.staging} WHERE {missing}"


def repeated_keys(table: StagedTable, *, distinct: bool) -> str:
    """The keys of several staged rows; with `distinct`, of several that differ."""
    rows = _distinct(table) if distinct else table.staging
    key = _list(table.key)
    return f"SELECT {key} FROM {rows} s GROUP BY {key} HAVING COUNT(*) > 1"


def count_of(query: str) -> str:
    return f"SELECT COUNT(*) FROM ({query}) headgate_counted"


def move(
    dialect: Dialect, table: StagedTable, mode: TableMode, *, repeats: bool, tag: Tag | None
) -> list[str]:
    """The statements that bring staged rows to the target, for one transaction.

    `repeats`: whether there are several rows of a key. `tag` is written to each appended row.
    """
    match mode:
        case TableMode.APPEND:
            return [_append(table, tag)]
        case TableMode.DELETE:
            return [_delete(table, table.staging, "")]
        case TableMode.UPSERT:
            rows = _one_of_each_key(table) if repeats else table.staging
            if table.op is None:
                return _upsert(dialect, table, rows, "")
            deletes = f"LOWER(s.{table.op}) = 'd'"
            writes = f"(s.{table.op} IS NULL OR LOWER(s.{table.op}) <> 'd')"
            return [
                _delete(table, rows, f" AND {deletes}"),
                *_upsert(dialect, table, rows, writes),
            ]


def delete_tagged(target: str, tags: Sequence[Tag]) -> str:
    """Deletes the rows of some batches. By equality: the order of texts depends on the database."""
    values = _list([_literal(one.value) for one in tags])
    return f"DELETE FROM {target} WHERE {tags[0].column} IN ({values})"


def _append(table: StagedTable, tag: Tag | None) -> str:
    columns = _list(table.columns)
    into = columns if tag is None else f"{columns}, {tag.column}"
    taken = columns if tag is None else f"{columns}, {_literal(tag.value)}"
    return f"INSERT INTO {table.target} ({into}) SELECT {taken} FROM {table.staging}"


def _delete(table: StagedTable, rows: str, condition: str) -> str:
    return (
        f"DELETE FROM {table.target} WHERE EXISTS "
        f"(SELECT 1 FROM {rows} s WHERE {_same_key(table, table.target)}{condition})"
    )


def _upsert(dialect: Dialect, table: StagedTable, rows: str, condition: str) -> list[str]:
    match dialect.upsert:
        case UpsertStyle.ON_CONFLICT:
            # with a condition, always: without, SQLite takes ON for that of a join
            updates = ", ".join(f"{one} = excluded.{one}" for one in table.others)
            then = f"UPDATE SET {updates}" if updates else "NOTHING"
            insert = _insert(table, rows, condition or "1 = 1")
            return [f"{insert} ON CONFLICT ({_list(table.key)}) DO {then}"]
        case UpsertStyle.ON_DUPLICATE_KEY:
            kept = table.others or table.key[:1]
            updates = ", ".join(f"{one} = VALUES({one})" for one in kept)
            return [f"{_insert(table, rows, condition)} ON DUPLICATE KEY UPDATE {updates}"]
        case UpsertStyle.MERGE:
            return [_merge(table, rows, condition) + dialect.ends_merge]
        case UpsertStyle.UPDATE_AND_INSERT:
            return _update_and_insert(table, rows, condition)


def _insert(table: StagedTable, rows: str, condition: str) -> str:
    columns = _list(table.columns)
    taken = _list([f"s.{one}" for one in table.columns])
    where = f" WHERE {condition}" if condition else ""
    return f"INSERT INTO {table.target} ({columns}) SELECT {taken} FROM {rows} s{where}"


def _merge(table: StagedTable, rows: str, condition: str) -> str:
    taken = _list([f"s.{one}" for one in table.columns])
    where = f" WHERE {condition}" if condition else ""
    updates = ", ".join(f"{one} = u.{one}" for one in table.others)
    matched = f"WHEN MATCHED THEN UPDATE SET {updates} " if updates else ""
    on = " AND ".join(f"t.{one} = u.{one}" for one in table.key)
    return (
        f"MERGE INTO {table.target} t USING (SELECT {taken} FROM {rows} s{where}) u ON ({on}) "
        f"{matched}WHEN NOT MATCHED THEN INSERT ({_list(table.columns)}) "
        f"VALUES ({_list([f'u.{one}' for one in table.columns])})"
    )


def _update_and_insert(table: StagedTable, rows: str, condition: str) -> list[str]:
    target, same = table.target, _same_key(table, table.target)
    also = f" AND {condition}" if condition else ""
    partner = f"FROM {rows} s WHERE {same}{also}"
    updates = ", ".join(f"{one} = (SELECT s.{one} {partner})" for one in table.others)
    known = f"EXISTS (SELECT 1 FROM {target} WHERE {same})"
    new = f"NOT {known}{also}"
    found = [f"UPDATE {target} SET {updates} WHERE EXISTS (SELECT 1 {partner})"] if updates else []
    return [*found, _insert(table, rows, new)]


def _one_of_each_key(table: StagedTable) -> str:
    if not table.order_by:
        return _distinct(table)
    # a null counts as the smallest in every database
    greatest = ", ".join(
        f"CASE WHEN {one} IS NULL THEN 1 ELSE 0 END, {one} DESC" for one in table.order_by
    )
    columns = _list(table.staged_columns)
    return (
        f"(SELECT {columns} FROM (SELECT {columns}, ROW_NUMBER() OVER "
        f"(PARTITION BY {_list(table.key)} ORDER BY {greatest}) AS {_NUMBER} "
        f"FROM {table.staging}) q WHERE {_NUMBER} = 1)"
    )


def _distinct(table: StagedTable) -> str:
    return f"(SELECT DISTINCT {_list(table.staged_columns)} FROM {table.staging})"


def _same_key(table: StagedTable, target: str) -> str:
    return " AND ".join(f"s.{one} = {target}.{one}" for one in table.key)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
