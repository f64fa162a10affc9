"""Rows of a Cassandra table, written by tasks with versions.

The version of a batch is the write timestamp of its rows, so of two writes to a cell the one of the
batch that was opened later stays. The record of who may write is a row of the table
`headgate_sinks` in the same keyspace, replaced by lightweight transactions.
"""

import ssl
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, dataclass, field, fields
from typing import Any

from taskrunner.core.cql_types import CqlColumn, cql_value
from taskrunner.core.store_failures import (
    RowsRefused,
    StoreLoginRefused,
    StoreRefused,
    StoreUnfit,
    StoreUnreachable,
)
from taskrunner.core.writer_record import WriterRecord
from taskrunner.sinks.optional_packages import imported
from taskrunner.sinks.versioned_output import FoundRecord

RECORDS = "headgate_sinks"
"""The table with the records of all sinks of a keyspace."""
_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 30
_PROTOCOL = 4
_REQUESTS_AT_ONCE = 64
_RECORD = [one.name for one in fields(WriterRecord)]
_RECORD_TYPES = {
    "job": "text",
    "sink": "text",
    "attempt": "bigint",
    "token": "text",
    "version": "bigint",
    "batch": "bigint",
    "done": "bigint",
}


@dataclass(frozen=True, slots=True)
class CassandraAccess:
    """How a cluster is reached, from the driver and from tasks."""

    hosts: tuple[str, ...]
    """Some nodes; the others are found."""
    port: int
    is_encrypted: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_certificates: str | None = None
    """In PEM; None: those that the machine trusts."""

    @property
    def name(self) -> str:
        return f"Cassandra at {', '.join(self.hosts)}:{self.port}"

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A session, for requests whose failures are named (`translated`)."""
        with ExitStack() as at_end:
            with self.translated():
                cluster = self._cluster()
                at_end.callback(_shut_down, cluster)
                session = cluster.connect()
            yield session

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Names the failures of the driver and of the cluster."""
        errors = imported("cassandra", "cassandra")
        clusters = imported("cassandra.cluster", "cassandra")
        try:
            yield
        except clusters.NoHostAvailable as error:
            refused = [one for one in error.errors.values() if _is_login(one, errors)]
            if refused:
                raise self._login_refused(refused[0]) from error
            raise self._unreachable(error) from error
        except errors.AuthenticationFailed as error:
            raise self._login_refused(error) from error
        except errors.Unauthorized as error:
            raise StoreLoginRefused(
                f"{self.name}: the user may not do what the sink needs ({_first_line(error)}): "
                "grant it, as the page of the connector says"
            ) from error
        except errors.InvalidRequest as error:
            raise StoreUnfit(f"{self.name} refuses a request: {_first_line(error)}") from error
        except (errors.Timeout, errors.Unavailable, errors.OperationTimedOut, OSError) as error:
            raise self._unreachable(error) from error
        except (errors.RequestExecutionException, errors.DriverException) as error:
            raise StoreRefused(f"{self.name} refuses a request: {_first_line(error)}") from error

    def _cluster(self) -> Any:
        driver = imported("cassandra.cluster", "cassandra")
        policies = imported("cassandra.policies", "cassandra")
        levels = imported("cassandra", "cassandra").ConsistencyLevel
        profile = driver.ExecutionProfile(
            load_balancing_policy=policies.DCAwareRoundRobinPolicy(),
            consistency_level=levels.LOCAL_QUORUM,
            serial_consistency_level=levels.SERIAL,
            request_timeout=_ANSWER_SECONDS,
        )
        login: dict[str, Any] = {}
        if self.user is not None:
            auth = imported("cassandra.auth", "cassandra")
            login["auth_provider"] = auth.PlainTextAuthProvider(self.user, self.password or "")
        if self.is_encrypted:
            login["ssl_context"] = ssl.create_default_context(cadata=self.ca_certificates)
        return driver.Cluster(
            list(self.hosts),
            self.port,
            execution_profiles={driver.EXEC_PROFILE_DEFAULT: profile},
            protocol_version=_PROTOCOL,
            connect_timeout=_CONNECT_SECONDS,
            schema_metadata_enabled=False,  # a connection is for one batch, and has to be quick
            token_metadata_enabled=False,
            **login,
        )

    def _login_refused(self, error: Exception) -> StoreLoginRefused:
        return StoreLoginRefused(
            f"{self.name} refuses the login ({_first_line(error)}): correct user and password, or "
            "the secret that the password refers to"
        )

    def _unreachable(self, error: Exception) -> StoreUnreachable:
        return StoreUnreachable(
            f"{self.name} does not answer, or not enough of its replicas do ({_first_line(error)}):"
            " are the nodes running, are their addresses right, and do they speak TLS exactly if "
            "the sink has tls: true? The batch is written again after a restart of the job"
        )


@dataclass(frozen=True, slots=True)
class CassandraRow:
    values: Mapping[str, Any]
    """By column; of a row that is deleted only the key counts."""
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class CassandraStore:
    """One table."""

    access: CassandraAccess
    keyspace: str
    table: str
    key: tuple[str, ...]
    expire_seconds: int = 0
    """After the last write of a row; 0: never."""
    consistency: str = "LOCAL_QUORUM"
    """How many replicas have to take a row."""

    @property
    def name(self) -> str:
        return f"table {self.keyspace}.{self.table} of {self.access.name}"

    @property
    def record_name(self) -> str:
        return f"the row {self.table} of the table {self.keyspace}.{RECORDS} of {self.access.name}"

    @contextmanager
    def connected(self) -> Iterator["CassandraConnection"]:
        with self.access.session() as session:
            yield CassandraConnection(self, session)


class CassandraConnection:
    """A connection to the cluster of a table."""

    def __init__(self, store: CassandraStore, session: Any) -> None:
        self._store = store
        self._session = session
        self._prepared: dict[str, Any] = {}
        self._records = f"{_quoted(store.keyspace)}.{_quoted(RECORDS)}"

    def columns(self) -> list[CqlColumn]:
        """The columns of the table, those of the key first; none: there is no such table."""
        store = self._store
        found = self._execute(
            "SELECT column_name, type, kind, position FROM system_schema.columns "
            "WHERE keyspace_name = %s AND table_name = %s",
            (store.keyspace, store.table),
        )
        order = {"partition_key": 0, "clustering": 1}
        rows = sorted(found, key=lambda one: (order.get(one.kind, 2), one.position))
        return [CqlColumn(one.column_name, one.type, one.kind) for one in rows]

    def make_records(self) -> None:
        """Creates the table with the records, unless it is there."""
        there = self._execute(
            "SELECT table_name FROM system_schema.tables "
            "WHERE keyspace_name = %s AND table_name = %s",
            (self._store.keyspace, RECORDS),
        )
        if there.one() is not None:
            return
        columns = ", ".join(f"{_quoted(one)} {_RECORD_TYPES[one]}" for one in _RECORD)
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {self._records} "
            f"(output text PRIMARY KEY, revision bigint, {columns})"
        )

    def read_record(self) -> FoundRecord | None:
        names = ", ".join(map(_quoted, _RECORD))
        statement = self._statement(
            f"SELECT revision, {names} FROM {self._records} WHERE output = ?"
        )
        levels = imported("cassandra", "cassandra").ConsistencyLevel
        statement.consistency_level = levels.SERIAL
        found = self._execute(statement, (self._store.table,)).one()
        if found is None:
            return None
        revision, *values = found
        return FoundRecord(WriterRecord(*values), (revision,))

    def replace_record(self, before: FoundRecord | None, record: WriterRecord) -> bool:
        values = astuple(record)
        errors = imported("cassandra", "cassandra")
        try:
            if before is None:
                names = ", ".join(map(_quoted, _RECORD))
                marks = ", ".join("?" * (len(_RECORD) + 2))
                statement = self._statement(
                    f"INSERT INTO {self._records} (output, revision, {names}) "
                    f"VALUES ({marks}) IF NOT EXISTS"
                )
                answer = self._execute(statement, (self._store.table, 1, *values))
            else:
                [revision] = before.revision
                changes = ", ".join(f"{_quoted(one)} = ?" for one in _RECORD)
                statement = self._statement(
                    f"UPDATE {self._records} SET revision = ?, {changes} "
                    "WHERE output = ? IF revision = ?"
                )
                bound = (revision + 1, *values, self._store.table, revision)
                answer = self._execute(statement, bound)
        except StoreUnreachable as error:
            if isinstance(error.__cause__, errors.WriteTimeout):
                return False  # it may have been replaced: the next read tells
            raise
        return bool(answer.was_applied)

    def write(self, rows: Sequence[CassandraRow], version: int) -> None:
        concurrent = imported("cassandra.concurrent", "cassandra")
        bound = [(self._bound(one, version), None) for one in rows]
        try:
            with self._store.access.translated():
                concurrent.execute_concurrent(
                    self._session, bound, concurrency=_REQUESTS_AT_ONCE, raise_on_first_error=True
                )
        except StoreUnfit as error:
            raise RowsRefused(f"{self._store.name}: {error}: correct the rows") from error

    def _bound(self, row: CassandraRow, version: int) -> Any:
        store = self._store
        table = f"{_quoted(store.keyspace)}.{_quoted(store.table)}"
        if row.is_deleted:
            where = " AND ".join(f"{_quoted(one)} = ?" for one in store.key)
            text = f"DELETE FROM {table} USING TIMESTAMP ? WHERE {where}"
            given = [version, *(row.values[one] for one in store.key)]
        else:
            names = ", ".join(map(_quoted, row.values))
            marks = ", ".join("?" * len(row.values))
            text = f"INSERT INTO {table} ({names}) VALUES ({marks}) USING TIMESTAMP ?"
            given = [*row.values.values(), version]
            if store.expire_seconds:
                text += " AND TTL ?"
                given.append(store.expire_seconds)
        statement = self._statement(text)
        levels = imported("cassandra", "cassandra").ConsistencyLevel
        statement.consistency_level = getattr(levels, store.consistency)
        kinds = [one.type.cql_parameterized_type() for one in statement.column_metadata]
        try:
            return statement.bind([cql_value(*pair) for pair in zip(given, kinds, strict=True)])
        except (TypeError, ValueError, OverflowError, OSError, struct.error) as error:
            key = ", ".join(f"{one} = {row.values[one]!r}" for one in store.key)
            raise RowsRefused(
                f"{store.name}: the row with {key} has a value that is not of the type of its "
                f"column ({_first_line(error)}): correct the row before the sink"
            ) from error

    def _execute(self, statement: Any, values: Sequence[Any] = ()) -> Any:
        with self._store.access.translated():
            return self._session.execute(statement, values or None)

    def _statement(self, text: str) -> Any:
        if text not in self._prepared:
            with self._store.access.translated():
                self._prepared[text] = self._session.prepare(text)
        return self._prepared[text]


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _shut_down(cluster: Any) -> None:
    with suppress(Exception):
        cluster.shutdown()


def _is_login(error: object, errors: Any) -> bool:
    return isinstance(error, errors.AuthenticationFailed)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
