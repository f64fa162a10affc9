"""Decides which files leave a table before a job continues from an older batch.

A table (Delta, Iceberg) has a history of commits. Each commit of a sink says which job, sink
and batch it holds and in how many files, and the files are named after the batch. A job that is
restored to batch b takes the files of its later batches out of the table, in one new commit; the
rows of other writers stay. That is possible as long as the table still has all these files: if
somebody has rewritten some of them since (a compaction, a deletion of rows), nobody can tell which
of the rows are the later batches', and the restore is refused.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jobmanager.core.ids import JobId, VertexId
from taskrunner.core.continuation import OutputLost
from taskrunner.core.sink_records import final_prefix


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    job: JobId
    sink: VertexId
    batch: int

    @property
    def prefix(self) -> str:
        """What the names of the directories with the batch's files begin with."""
        return final_prefix(self.job, self.sink, self.batch)


@dataclass(frozen=True, slots=True)
class BatchAppended:
    """A commit that added the files of a batch."""

    written: WrittenBatch
    files: int


@dataclass(frozen=True, slots=True)
class BatchesWithdrawn:
    """A commit that took the files of later batches out of the table."""

    sink: VertexId
    kept: Mapping[JobId, int] = field(default_factory=dict)
    """The last batch of each job that stayed; -1: none."""


SinkCommit = BatchAppended | BatchesWithdrawn


@dataclass(frozen=True, slots=True)
class Withdrawal:
    batches: tuple[int, ...] = ()
    """The batches that leave the table, newest first; none: it stays as it is."""
    files: tuple[str, ...] = ()


def withdrawal(
    table: str,
    sink: VertexId,
    history: Iterable[SinkCommit],
    files: Collection[str],
    kept: Mapping[JobId, int],
    *,
    is_whole: bool = True,
) -> Withdrawal:
    """What has to leave the table so that it has no batch of `sink` after the `kept` ones.

    `history` has the commits of all sinks, the newest first; `is_whole` says whether it goes back
    to the first commit of the table. `files` are the paths of the table's files. `kept` maps each
    job of the lineage to its last batch that stays. Raises `OutputLost`.
    """
    later = list(_later(sink, history, kept, table, is_whole=is_whole))
    found: list[str] = []
    for one in later:
        own = [path for path in files if _directory(path, one.written)]
        if len(own) != one.files:
            raise OutputLost(
                f"sink {sink}: the job goes back to before batch {one.written.batch}, which "
                f"{table} holds already, and of that batch's {one.files} files the table has "
                f"{len(own)}: its rows were rewritten since (a compaction or a change of rows), so "
                "they cannot be told from others. Take the rows of the later batches out by "
                "hand and give the sink another table, or restore a newer savepoint"
            )
        found += own
    return Withdrawal(tuple(one.written.batch for one in later), tuple(found))


def _later(
    sink: VertexId,
    history: Iterable[SinkCommit],
    kept: Mapping[JobId, int],
    table: str,
    *,
    is_whole: bool,
) -> Iterator[BatchAppended]:
    """The commits with batches that have to leave, the newest first."""
    gone: dict[JobId, int] = {}
    oldest: int | None = None
    for commit in history:
        if isinstance(commit, BatchesWithdrawn):
            if commit.sink == sink:
                for job, batch in commit.kept.items():
                    gone[job] = min(batch, gone.get(job, batch))
            continue
        written = commit.written
        if written.sink != sink or written.job not in kept:
            continue
        if written.batch <= kept[written.job]:
            return
        if written.job not in gone or written.batch <= gone[written.job]:
            oldest = written.batch
            yield commit
    if oldest is not None and not is_whole:
        raise OutputLost(
            f"sink {sink}: the job goes back to before batch {oldest}, and the history of "
            f"{table} does not reach back to the batch before it: older entries were cleaned up. "
            "Give the sink another table, or restore a newer savepoint"
        )


def _directory(path: str, written: WrittenBatch) -> bool:
    """Whether a file is in a directory of the batch."""
    return any(one.startswith(written.prefix) for one in path.split("/")[:-1])
