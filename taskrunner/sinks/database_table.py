"""A table of a database in which each row of a job is written exactly once.

Executors write a batch in parallel into a staging table of that attempt and batch. Then the driver
does the rest in one transaction: it notes the batch in the ledger (`ledger.py`), which also finds
out whether the attempt was replaced or the batch was written before, and moves the rows to their
target. Then the staging table is dropped; those that a crash leaves are dropped by the next
attempt. A staging table that does not hold as many rows as Spark counted is not moved: a task that
ran twice, or a staging table that a crash of the database has emptied.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from jobmanager.core.graph.connectors.table_mode import TableMode
from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from taskrunner import logs
from taskrunner.core import table_statements
from taskrunner.core.continuation import Branch, last_kept
from taskrunner.core.staged_rows import BatchIncomplete
from taskrunner.core.table_ledger import (
    CannotGoBack,
    GoBack,
    LaterRows,
    NothingToUndo,
    batch_tag,
    match_columns,
    recovery,
    staging_name,
    staging_prefix,
    table_ahead,
)
from taskrunner.core.table_statements import Dialect, StagedTable, Tag
from taskrunner.sinks.directory import Guard
from taskrunner.sinks.ledger import LEDGER, Ledger
from taskrunner.sinks.sql_connection import Connect, DatabaseRefused, SqlConnection

log = logs.get("database_table")
_OP = "VARCHAR(32)"
_TAGS_AT_ONCE = 500
"""Batches whose rows one statement deletes."""


_DROP_SECONDS = 10
"""An executor of a replaced attempt may hold the table: then the next attempt drops it."""


class KeyInvalid(Exception):
    """The rows of a batch do not fit the key of the sink."""


class TableUnfit(Exception):
    """The table cannot be written by the sink's key."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What a sink writes, and how."""

    target: str
    mode: TableMode
    dialect: Dialect
    key: tuple[str, ...] = ()
    op_column: str | None = None
    order_by: tuple[str, ...] = ()
    batch_column: str | None = None
    staging_schema: str | None = None
    """None: that of the target."""

    @property
    def later_rows(self) -> LaterRows:
        if self.mode is not TableMode.APPEND:
            return LaterRows.OVERWRITE
        return LaterRows.WITHDRAW if self.batch_column else LaterRows.REFUSE

    @property
    def schema(self) -> str | None:
        """Where staging tables and the ledger are; None: where the connection is by default."""
        before, dot, _ = self.target.rpartition(".")
        return self.staging_schema or (before if dot else None)

    def beside(self, name: str) -> str:
        return f"{self.schema}.{name}" if self.schema else name


class DatabaseTable:
    """The output of one sink in one table. One thread uses it."""

    def __init__(
        self,
        connect: Connect,
        spec: TableSpec,
        job: JobId,
        sink: VertexId,
        attempt: AttemptNumber,
        guard: Guard,
        after_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._connect = connect
        self._spec = spec
        self._job = job
        self._sink = sink
        self._attempt = attempt
        self._guard = guard
        self._after_step = after_step
        """Called after each step after which a crash may happen (tests use it)."""
        self._ledger = Ledger(spec.beside(LEDGER), job, sink, spec.target)

    def take_over(self) -> None:
        """Keeps older attempts from writing, from now on. Raises `Superseded` and `TableUnfit`."""
        with self._guard(), self._connect() as connection:
            self._check_key(connection)
            self._ledger.create(connection)
            self._ledger.take_over(connection, self._attempt)

    def recover(self, last_kept: int) -> None:
        """Brings the table in line with the restored state, and drops what earlier attempts left.
        Raises `OutputLost`.
        """
        with self._guard(), self._connect() as connection:
            self._recover(connection, self._ledger, self._job, last_kept)
            self._drop_leftovers(connection, self._job)

    def continue_output(
        self, lineage: Sequence[Branch], guard_of: Callable[[JobId], Guard]
    ) -> None:
        """Takes back what the jobs that this job continues, and others that branched off from them,
        wrote after the restore point. May be repeated. Raises `OutputLost`.
        """
        with self._connect() as connection:
            others = self._ledger.lineages(connection)
            known = set(others) - {self._job}
            others.pop(self._job, None)
            for other, batch in last_kept(lineage, others).items():
                if other in known:
                    with guard_of(other)():
                        self._continue(connection, other, batch)
            self._ledger.write_lineage(connection, list(lineage))

    def has(self, batch: int) -> bool:
        """Whether the batch was written before."""
        with self._connect() as connection:
            entry = self._ledger.read(connection)
        return entry is not None and entry.last_batch >= batch

    def stage(
        self, batch: int, columns: Sequence[str], definition: Callable[[str, str], str]
    ) -> tuple[StagedTable, dict[str, str]]:
        """Makes an empty staging table for rows with these columns; also returns which columns go
        there, and their names in the table. `definition`: a column and its quoted name to a
        definition in SQL.
        """
        spec = self._spec
        name = staging_name(self._job, self._sink, spec.target, self._attempt, batch)
        with self._connect() as connection:
            found = connection.columns(spec.target)
            extra = [one for one in (spec.op_column, *spec.order_by) if one is not None]
            ignored = [one for one in columns if one not in spec.key] if self._deletes else extra
            matched = match_columns(columns, found, key=spec.key, not_written=ignored)
            quoted = {
                one: connection.quoted(matched.written.get(one, one))
                for one in columns
                if not self._deletes or one in spec.key
            }
            staged = StagedTable(
                spec.beside(name),
                spec.target,
                tuple(quoted[one] for one in quoted if one in matched.written),
                tuple(quoted[one] for one in spec.key),
                quoted[spec.op_column] if spec.op_column else None,
                tuple(quoted[one] for one in spec.order_by),
            )
            with suppress(DatabaseRefused):  # of a batch that failed in this same attempt
                self._drop(connection, staged.staging)
            connection.execute(table_statements.create_staging(spec.dialect, staged))
            for one in quoted:
                if one not in matched.written:
                    # a short text: some databases cannot compare the type that a text would get
                    is_op = one == spec.op_column
                    added = f"{quoted[one]} {_OP}" if is_op else definition(one, quoted[one])
                    connection.execute(table_statements.add_column(staged.staging, added))
        self._after_step("staging created")
        return staged, {one: matched.written.get(one, one) for one in quoted}

    def commit(self, batch: int, staged: StagedTable, rows: int) -> None:
        """Moves the staged rows to their target, and notes the batch. A batch without rows is not
        noted. Raises `BatchIncomplete`, `KeyInvalid` and `Superseded`.
        """
        self._after_step("staged")
        with self._connect() as connection:
            if rows > 0:
                with self._guard(), connection.transaction():
                    if self._ledger.advance(connection, self._attempt, batch):
                        self._after_step("noted")
                        self._move(connection, batch, staged, rows)
                        self._after_step("moved")
                self._after_step("committed")
            self._drop(connection, staged.staging)
        self._after_step("dropped")

    def abandon(self, staged: StagedTable) -> None:
        """Drops a staging table after a failure."""
        with suppress(DatabaseRefused), self._connect() as connection:
            self._drop(connection, staged.staging)

    @property
    def _deletes(self) -> bool:
        return self._spec.mode is TableMode.DELETE

    def _move(self, connection: SqlConnection, batch: int, staged: StagedTable, rows: int) -> None:
        [(found,)] = connection.query(f"SELECT COUNT(*) FROM {staged.staging}")
        if int(found) != rows:
            raise BatchIncomplete(
                f"sink {self._sink}, batch {batch}: Spark counted {rows} rows, and the staging "
                f"table {staged.staging} has {found}: a task was run twice, or the database lost "
                "the table. Nothing of the batch was written; the batch runs again after a restart"
            )
        repeats = (
            bool(staged.key) and not self._deletes and self._check_rows(connection, batch, staged)
        )
        tag = self._tag(connection, self._job, batch)
        for statement in table_statements.move(
            self._spec.dialect, staged, self._spec.mode, repeats=repeats, tag=tag
        ):
            connection.execute(statement)

    def _check_rows(self, connection: SqlConnection, batch: int, staged: StagedTable) -> bool:
        """Whether several rows may have the same key. Raises `KeyInvalid`."""
        where = f"sink {self._sink}, batch {batch}"
        [(nulls,)] = connection.query(table_statements.rows_without_key(staged))
        if int(nulls):
            raise KeyInvalid(
                f"{where}: {nulls} rows have a null in the key ({', '.join(self._spec.key)}): "
                "filter them out before the sink"
            )
        if staged.order_by:
            return True
        if not self._count(connection, table_statements.repeated_keys(staged, distinct=False)):
            return False
        differing = table_statements.repeated_keys(staged, distinct=True)
        if number := self._count(connection, differing):
            example = ", ".join(map(str, connection.query(differing)[0]))
            raise KeyInvalid(
                f"{where}: {number} keys have several rows that differ, such as {example}: name "
                "the columns by which the last row of a key is known in order_by"
            )
        return True

    def _count(self, connection: SqlConnection, query: str) -> int:
        [(found,)] = connection.query(table_statements.count_of(query))
        return int(found)

    def _check_key(self, connection: SqlConnection) -> None:
        spec = self._spec
        if spec.mode is not TableMode.UPSERT or not spec.dialect.needs_unique_key:
            return
        wanted = frozenset(one.lower() for one in spec.key)
        found = [{one.lower() for one in each} for each in connection.unique_keys(spec.target)]
        if wanted not in found:
            key = ", ".join(spec.key)
            raise TableUnfit(
                f"sink {self._sink}: table {spec.target} has no unique index on exactly ({key}), "
                f"which an upsert in {spec.dialect.name} needs: CREATE UNIQUE INDEX ON "
                f"{spec.target} ({key})"
            )

    def _recover(
        self, connection: SqlConnection, ledger: Ledger, job: JobId, last_kept: int
    ) -> None:
        entry = ledger.read(connection)
        if entry is None:
            return
        match recovery(entry, last_kept, self._spec.later_rows):
            case NothingToUndo():
                return
            case GoBack(last_batch=batch, withdrawn=withdrawn):
                with connection.transaction():
                    self._withdraw(connection, job, withdrawn)
                    self._after_step("withdrawn")
                    ledger.go_back(connection, batch)
                self._after_step("gone back")
                log.info("table_went_back", sink=self._sink, table=self._spec.target, batch=batch)
            case CannotGoBack() as refused:
                raise table_ahead(self._sink, self._spec.target, refused, ledger.name, job)

    def _continue(self, connection: SqlConnection, other: JobId, batch: int) -> None:
        """Takes over from another job, which has ended, permanently."""
        ledger = self._ledger.of_other(other)
        entry = ledger.read(connection)
        if entry is not None:
            ledger.take_over(connection, AttemptNumber(entry.attempt + 1))
        self._recover(connection, ledger, other, batch)
        self._drop_leftovers(connection, other)

    def _withdraw(self, connection: SqlConnection, job: JobId, batches: Sequence[int]) -> None:
        tags = [self._tag(connection, job, batch) for batch in batches]
        for first in range(0, len(tags), _TAGS_AT_ONCE):
            some = [one for one in tags[first : first + _TAGS_AT_ONCE] if one is not None]
            connection.execute(table_statements.delete_tagged(self._spec.target, some))

    def _tag(self, connection: SqlConnection, job: JobId, batch: int) -> Tag | None:
        column = self._spec.batch_column
        if column is None:
            return None
        return Tag(connection.quoted(column), batch_tag(job, self._sink, batch))

    def _drop_leftovers(self, connection: SqlConnection, job: JobId) -> None:
        prefix = staging_prefix(job, self._sink, self._spec.target)
        for name in connection.tables(self._spec.schema, prefix):
            with suppress(DatabaseRefused):
                self._drop(connection, self._spec.beside(name))

    def _drop(self, connection: SqlConnection, table: str) -> None:
        connection.execute(f"DROP TABLE {table}", seconds=_DROP_SECONDS)
