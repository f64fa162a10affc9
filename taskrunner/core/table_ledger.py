"""What a database itself knows of the batches that a sink wrote to one of its tables.

The target's database has a small table, the ledger, with an entry for each (job, sink, target): the
attempt that may write, and the last batch that was written. Each batch changes its entry and the
target in one transaction, so an entry never contradicts the rows.

    attempt 1 writes 0 1 2 ▌        killed: the ledger says (1, 2)
    attempt 2 takes over            (2, 2): attempt 1 can write nothing any more
    attempt 2 replays 2, writes 3   2 is known and left out; then (2, 3)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from uuid import UUID

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from taskrunner.core.continuation import Branch, OutputLost
from taskrunner.core.sink_records import final_prefix

_MOST_BRANCHES = 70
"""More do not fit into the column. The oldest are left out: no job can be forked there again."""


class LaterRows(StrEnum):
    """What happens to rows of later batches when a job goes back to an older state."""

    OVERWRITE = "overwrite"
    """They stay until the same keys are written again."""
    WITHDRAW = "withdraw"
    """They are found by the column that names their batch, and deleted."""
    REFUSE = "refuse"
    """Nobody can tell which rows they are."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    attempt: int
    last_batch: int
    """-1: none was written."""


@dataclass(frozen=True, slots=True)
class NothingToUndo:
    """Nothing that was written has to go."""


@dataclass(frozen=True, slots=True)
class GoBack:
    """The entry goes back to `last_batch`, and the rows of these batches are deleted."""

    last_batch: int
    withdrawn: range


@dataclass(frozen=True, slots=True)
class CannotGoBack:
    written: int
    wanted: int


LedgerRecovery = NothingToUndo | GoBack | CannotGoBack


class WriteOutcome(StrEnum):
    """What the ledger says to a batch whose entry could not be moved forward."""

    ALREADY_WRITTEN = "already written"
    SUPERSEDED = "superseded"


def recovery(entry: LedgerEntry, last_kept: int, later: LaterRows) -> LedgerRecovery:
    """What to do with a table when its job starts after batch `last_kept`."""
    if entry.last_batch <= last_kept:
        return NothingToUndo()
    if later is LaterRows.REFUSE:
        return CannotGoBack(entry.last_batch, last_kept)
    every = range(last_kept + 1, entry.last_batch + 1)
    return GoBack(last_kept, every if later is LaterRows.WITHDRAW else range(0))


def refused_write(entry: LedgerEntry | None, attempt: AttemptNumber) -> WriteOutcome:
    """Why an entry could not be moved forward by an attempt."""
    if entry is not None and entry.attempt == attempt:
        return WriteOutcome.ALREADY_WRITTEN
    return WriteOutcome.SUPERSEDED


def staging_prefix(job: JobId, sink: VertexId, target: str) -> str:
    """What the names of all staging tables of a sink begin with. Short: some databases allow no
    more than 30 characters for a whole name.
    """
    digest = sha256(f"{job.hex}/{sink}/{target}".encode()).hexdigest()
    return f"hg_{digest[:10]}_"


def staging_name(
    job: JobId, sink: VertexId, target: str, attempt: AttemptNumber, batch: int
) -> str:
    """Of the attempt too: executors of an attempt that was replaced may still be writing."""
    return f"{staging_prefix(job, sink, target)}{attempt}_{batch}"


def batch_tag(job: JobId, sink: VertexId, batch: int) -> str:
    """How a row names its batch, as the files of a `files` sink do."""
    return final_prefix(job, sink, batch).removesuffix("-")


def branches_text(branches: Sequence[Branch]) -> str:
    """A lineage as the ledger keeps it, the oldest job first."""
    kept = branches[-_MOST_BRANCHES:]
    return ",".join(f"{one.job.hex}:{one.batch}" for one in kept)


def branches_of(text: str | None) -> list[Branch]:
    found = (one.split(":") for one in (text or "").split(",") if one)
    return [Branch(JobId(UUID(job)), int(batch)) for job, batch in found]


def table_ahead(
    sink: VertexId, target: str, refused: CannotGoBack, ledger: str, job: JobId
) -> OutputLost:
    return OutputLost(
        f"sink {sink}: table {target} has the rows of batches up to {refused.written}, and the job "
        f"would continue after batch {refused.wanted}. Rows of later batches cannot be taken back: "
        "nothing in an appended row tells its batch. Either delete these rows yourself and then "
        f"set last_batch to {refused.wanted} in {ledger} where job_id = '{job.hex}' and sink_id = "
        f"'{sink}'; or give the sink another table; or use mode upsert, or batch_column, from the "
        "start"
    )


@dataclass(frozen=True, slots=True)
class Matched:
    """Columns of rows, with the names that the database has for them."""

    written: Mapping[str, str]
    """Column of the rows to column of the target."""
    only_staged: tuple[str, ...]
    """Columns of the rows that the target does not have, and that are not to be written."""


class ColumnsDiffer(Exception):
    """The rows have columns that the target does not have, or lack those of the key."""


def match_columns(
    rows: Sequence[str], target: Sequence[str], *, key: Sequence[str], not_written: Sequence[str]
) -> Matched:
    """Finds the target's column of each column, whatever the case. `not_written` may be missing in
    the target. Raises `ColumnsDiffer`.
    """
    exact = {one: one for one in target}
    folded = {one.lower(): one for one in target}
    known = {one: exact.get(one) or folded.get(one.lower()) for one in rows}
    if missing := [one for one in key if one not in known]:
        raise ColumnsDiffer(f"the rows have no column {missing[0]!r} of the key: {_named(rows)}")
    unknown = [one for one, found in known.items() if found is None and one not in not_written]
    if unknown:
        raise ColumnsDiffer(
            f"the table has no column for {_named(unknown)}: it has {_named(target)}. Drop the "
            "column in a map before the sink, or add it to the table"
        )
    written = {one: found for one, found in known.items() if found is not None}
    return Matched(written, tuple(one for one in known if known[one] is None))


def _named(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "no column"
