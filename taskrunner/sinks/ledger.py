"""The ledger of sinks in a database: the entry of one (job, sink, target)."""

from contextlib import suppress
from uuid import UUID

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from taskrunner.core.continuation import Branch
from taskrunner.core.table_ledger import (
    LedgerEntry,
    WriteOutcome,
    branches_of,
    branches_text,
    refused_write,
)
from taskrunner.sinks.sql_connection import DatabaseRefused, SqlConnection
from taskrunner.snapshots.fence import Superseded

LEDGER = "headgate_batches"
_COLUMNS = (
    "job_id VARCHAR(32) NOT NULL, sink_id VARCHAR(64) NOT NULL, target VARCHAR(250) NOT NULL, "
    "attempt BIGINT NOT NULL, last_batch BIGINT NOT NULL, lineage VARCHAR(4000), "
    "PRIMARY KEY (job_id, sink_id, target)"
)
_THIS = "job_id = ? AND sink_id = ? AND target = ?"


class Ledger:
    """The entry of one sink, in the table `name`."""

    def __init__(self, name: str, job: JobId, sink: VertexId, target: str) -> None:
        self.name = name
        self._sink = sink
        self._target = target
        self._this = (job.hex, str(sink), target)

    def of_other(self, job: JobId) -> "Ledger":
        """The entry of another job for the same sink and target."""
        return Ledger(self.name, job, self._sink, self._target)

    def create(self, connection: SqlConnection) -> None:
        """Creates the table, unless it is there. Two jobs may try at the same time."""
        with suppress(DatabaseRefused):
            connection.columns(self.name)
            return
        try:
            connection.execute(f"CREATE TABLE {self.name} ({_COLUMNS})")
        except DatabaseRefused:
            try:
                connection.columns(self.name)
            except DatabaseRefused:
                pass
            else:
                return
            raise

    def take_over(self, connection: SqlConnection, attempt: AttemptNumber) -> LedgerEntry:
        """Keeps all older attempts from writing. Raises `Superseded` if a newer one has."""
        with connection.transaction():
            raised = connection.execute(
                f"UPDATE {self.name} SET attempt = ? WHERE {_THIS} AND attempt <= ?",
                (attempt, *self._this, attempt),
            )
            entry = self.read(connection)
            if not raised and entry is None:
                entry = LedgerEntry(attempt, -1)
                connection.execute(
                    f"INSERT INTO {self.name} (job_id, sink_id, target, attempt, last_batch) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (*self._this, attempt, entry.last_batch),
                )
            elif not raised:
                raise self._superseded(attempt, entry)
        assert entry is not None
        return entry

    def read(self, connection: SqlConnection) -> LedgerEntry | None:
        found = connection.query(
            f"SELECT attempt, last_batch FROM {self.name} WHERE {_THIS}", self._this
        )
        return LedgerEntry(int(found[0][0]), int(found[0][1])) if found else None

    def advance(self, connection: SqlConnection, attempt: AttemptNumber, batch: int) -> bool:
        """Notes a batch, in the transaction that writes it. The row stays locked until the end of
        that transaction. False: the batch was written before. Raises `Superseded`.
        """
        moved = connection.execute(
            f"UPDATE {self.name} SET last_batch = ? WHERE {_THIS} AND attempt = ? "
            "AND last_batch < ?",
            (batch, *self._this, attempt, batch),
        )
        if moved:
            return True
        entry = self.read(connection)
        if refused_write(entry, attempt) is WriteOutcome.SUPERSEDED:
            raise self._superseded(attempt, entry)
        return False

    def go_back(self, connection: SqlConnection, batch: int) -> None:
        connection.execute(
            f"UPDATE {self.name} SET last_batch = ? WHERE {_THIS}", (batch, *self._this)
        )

    def write_lineage(self, connection: SqlConnection, branches: list[Branch]) -> None:
        connection.execute(
            f"UPDATE {self.name} SET lineage = ? WHERE {_THIS}",
            (branches_text(branches), *self._this),
        )

    def lineages(self, connection: SqlConnection) -> dict[JobId, list[Branch]]:
        """The lineages of all jobs that wrote to the same target by a sink of the same name."""
        found = connection.query(
            f"SELECT job_id, lineage FROM {self.name} WHERE sink_id = ? AND target = ?",
            self._this[1:],
        )
        return {JobId(UUID(str(job))): branches_of(text) for job, text in found}

    def _superseded(self, attempt: AttemptNumber, entry: LedgerEntry | None) -> Superseded:
        if entry is None:
            return Superseded(
                f"attempt {attempt} has no entry in {self.name} any more: somebody deleted it"
            )
        return Superseded(
            f"attempt {attempt} was superseded by attempt {entry.attempt} in {self.name}"
        )
