"""A Delta table on a file system: commits of whole batches, by the `deltalake` library.

Each commit has a transaction of the table's own kind (`txn`): its application is the job's sink,
its version the batch. So the table itself tells which batch of a sink is its last. A withdrawal
removes the files of later batches and sets that version back, in one commit.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pyarrow
import pyarrow.parquet

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from taskrunner.core.continuation import OutputLost
from taskrunner.core.delta_protocol import DeltaProtocol, read_obstacles, write_obstacles
from taskrunner.core.file_statistics import ColumnChunk, delta_statistics, text_of_partition
from taskrunner.core.table_history import (
    BatchAppended,
    BatchesWithdrawn,
    SinkCommit,
    WrittenBatch,
    withdrawal,
)
from taskrunner.sinks.optional_packages import imported
from taskrunner.sinks.table_output import DataFile, TableNotUsable
from taskrunner.snapshots import durable

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_OURS = "headgate"
_LOG = "_delta_log"


@dataclass(frozen=True, slots=True)
class PartitionedFile:
    location: str
    """As Spark names files: a URI in which nothing is encoded."""
    partition: Mapping[str, Any]


class DeltaFiles:
    """The rows of one version of a table, as the files that hold them."""

    def __init__(self, directory: Path, version: int | None = None) -> None:
        """The newest version if none is named. Raises `TableNotUsable`."""
        self._directory = directory
        self._table = _opened(directory, version)
        protocol = _protocol(self._table)
        vectors = pyarrow.table(self._table.deletion_vectors()).num_rows
        if found := read_obstacles(protocol, has_deletion_vectors=vectors > 0):
            raise TableNotUsable(
                f"the Delta table {directory} cannot be read: it has {', '.join(found)}"
            )

    @property
    def version(self) -> int:
        return int(self._table.version())

    @property
    def schema(self) -> str:
        """As JSON, in the form that Delta and Spark share."""
        return self._table.schema().to_json()

    @property
    def partitioned_by(self) -> Sequence[str]:
        return self._table.metadata().partition_columns

    def files(self) -> list[PartitionedFile]:
        return list(map(self._file, _active_files(self._table)))

    def newest(self, rows: int) -> list[PartitionedFile]:
        """The files that were added last and have so many rows together, the newest first."""
        found, left = [], rows
        added = sorted(_active_files(self._table), key=itemgetter("modification_time"))
        for one in reversed(added):
            if left <= 0:
                break
            found.append(self._file(one))
            left -= one.get("num_records") or 1
        return found

    def _file(self, action: Mapping[str, Any]) -> PartitionedFile:
        location = _location(self._directory, action["path"])
        return PartitionedFile(location, action.get("partition") or {})


class DeltaCommits:
    """The table as its writers see it (`CommittedTable`)."""

    def __init__(self, directory: Path) -> None:
        """The table must exist."""
        self._directory = directory
        self._table = _opened(directory, None)

    @staticmethod
    def create(directory: Path, schema: str, partition_by: Sequence[str]) -> None:
        """Makes the table, unless it exists."""
        deltalake = imported("deltalake", "delta")
        durable.make_directory(directory)
        deltalake.DeltaTable.create(
            directory.as_uri(),
            deltalake.Schema.from_json(schema),
            mode="ignore",
            partition_by=list(partition_by),
        )
        _sync_log(directory, range(1))

    @property
    def name(self) -> str:
        return f"the Delta table {self._directory}"

    @property
    def data(self) -> Path:
        return self._directory

    @property
    def schema(self) -> str:
        """As JSON, in the form that Delta and Spark share."""
        return self._table.schema().to_json()

    @property
    def partitioned_by(self) -> Sequence[str]:
        return self._table.metadata().partition_columns

    def obstacles(self) -> list[str]:
        """Every reason why files cannot simply be added to the table."""
        return write_obstacles(_protocol(self._table))

    def last_batch(self, job: JobId, sink: VertexId) -> int | None:
        self._table.update_incremental()
        return self._table.transaction_version(_application(job, sink))

    def append(
        self, batch: WrittenBatch, attempt: AttemptNumber, root: Path, files: Sequence[DataFile]
    ) -> None:
        transaction = imported("deltalake.transaction", "delta")
        told = {"job": batch.job.hex, "sink": batch.sink, "batch": batch.batch}
        told |= {"attempt": attempt, "files": len(files)}
        now = _now()
        added = [
            transaction.AddAction(
                path=one.path.relative_to(self._directory).as_posix(),
                size=one.bytes,
                partition_values=_partition(one.path.relative_to(root)),
                modification_time=now,
                data_change=True,
                stats=json.dumps(_statistics(one)),
            )
            for one in files
        ]
        text = f"batch {batch.batch} of sink {batch.sink} of job {batch.job.hex}"
        self._commit(added, _properties(batch.job, batch.sink, batch.batch, told, text))

    def roll_back(self, job: JobId, sink: VertexId, kept: Mapping[JobId, int]) -> Sequence[int]:
        self._table.update_incremental()
        entries = self._table.history()
        active = {unquote(one["path"]): one for one in _active_files(self._table)}
        found = withdrawal(
            self.name,
            sink,
            _commits(entries),
            active,
            kept,
            is_whole=entries[-1].get("version") == 0,
        )
        if not found.files:
            return found.batches
        if self._table.metadata().configuration.get("delta.appendOnly") == "true":
            raise OutputLost(
                f"sink {sink}: the job goes back to before batch {found.batches[-1]}, and "
                f"{self.name} has delta.appendOnly: rows cannot be removed. Give the sink another "
                "table, or unset the property and restart the job"
            )
        told = {"sink": sink, "withdrawn": {one.hex: batch for one, batch in kept.items()}}
        text = f"withdrawal of batches {found.batches[-1]} to {found.batches[0]} of sink {sink}"
        removed = [self._removal(active[path]) for path in found.files]
        self._commit(removed, _properties(job, sink, kept[job], told, text))
        return found.batches

    def _removal(self, file: Mapping[str, Any]) -> Any:
        transaction = imported("deltalake.transaction", "delta")
        path = PurePosixPath(unquote(file["path"]))
        partition = _partition(Path(*path.parts[1:]))  # the first is the batch's directory
        return transaction.RemoveAction(str(path), True, _now(), file["size_bytes"], partition)

    def _commit(self, actions: list[Any], properties: "CommitProperties") -> None:
        before = self._table.version()
        self._table.create_write_transaction(
            actions,
            "append",
            self._table.schema(),
            list(self.partitioned_by),
            commit_properties=properties,
        )
        self._table.update_incremental()
        _sync_log(self._directory, range(before + 1, self._table.version() + 1))


def is_delta_table(directory: Path) -> bool:
    deltalake = imported("deltalake", "delta")
    return bool(deltalake.DeltaTable.is_deltatable(str(directory)))


def _opened(directory: Path, version: int | None) -> "DeltaTable":
    deltalake = imported("deltalake", "delta")
    if not is_delta_table(directory):
        raise TableNotUsable(
            f"{directory} is no Delta table: it has no directory {_LOG} with a commit in it"
        )
    try:
        found: DeltaTable = deltalake.DeltaTable(directory.as_uri(), version=version)
    except deltalake.exceptions.DeltaError as error:
        raise TableNotUsable(
            f"version {version} of the Delta table {directory} cannot be opened: {error}"
        ) from error
    return found


def _protocol(table: "DeltaTable") -> DeltaProtocol:
    found = table.protocol()
    fields = json.loads(table.schema().to_json())["fields"]
    return DeltaProtocol(
        dict(table.metadata().configuration),
        fields,
        found.writer_features or (),
        found.reader_features or (),
    )


def _active_files(table: "DeltaTable") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pyarrow.table(table.get_add_actions()).to_pylist()
    return rows


def _location(directory: Path, path: str) -> str:
    """A file's path in the log is relative to the table's directory, and encoded."""
    return unquote(path) if urlsplit(path).scheme else f"file:{directory}/{unquote(path)}"


def _application(job: JobId, sink: VertexId) -> str:
    return f"{_OURS}/{job.hex}/{sink}"


def _properties(
    job: JobId, sink: VertexId, batch: int, told: Mapping[str, Any], text: str
) -> "CommitProperties":
    deltalake = imported("deltalake", "delta")
    properties: CommitProperties = deltalake.CommitProperties(
        custom_metadata={_OURS: dict(told), "userMetadata": f"Headgate: {text}"},
        app_transactions=[deltalake.Transaction(_application(job, sink), batch)],
    )
    return properties


def _commits(entries: Sequence[Mapping[str, Any]]) -> Iterator[SinkCommit]:
    """What sinks say about their commits, in the order of the history."""
    for entry in entries:
        told = entry.get(_OURS)
        if not isinstance(told, Mapping):
            continue
        sink = VertexId(told["sink"])
        if "withdrawn" in told:
            kept = {JobId(UUID(job)): int(batch) for job, batch in told["withdrawn"].items()}
            yield BatchesWithdrawn(sink, kept)
        else:
            written = WrittenBatch(JobId(UUID(told["job"])), sink, int(told["batch"]))
            yield BatchAppended(written, int(told["files"]))


def _partition(path: Path) -> dict[str, str | None]:
    """The partition of a file, from the directories that Spark made for it."""
    return dict(text_of_partition(one) for one in path.parent.parts)


def _statistics(file: DataFile) -> dict[str, Any]:
    return delta_statistics(file.rows, _chunks(file.path))


def _chunks(path: Path) -> Iterator[ColumnChunk]:
    """What the footer says about the plain columns; columns inside of others are left out."""
    footer = pyarrow.parquet.read_metadata(path)
    for group in range(footer.num_row_groups):
        for place in range(footer.num_columns):
            chunk = footer.row_group(group).column(place)
            name = footer.schema.column(place).name
            if chunk.path_in_schema != name:
                continue
            known = chunk.statistics
            nulls = known.null_count if known is not None and known.has_null_count else None
            if known is not None and known.has_min_max:
                yield ColumnChunk(name, nulls, known.min, known.max)
            else:
                yield ColumnChunk(name, nulls)


def _sync_log(directory: Path, versions: range) -> None:
    """The library does not sync the log's files."""
    log = directory / _LOG
    durable.sync_all((log / f"{one:020}.json" for one in versions), inside=log)


def _now() -> int:
    return time.time_ns() // 1_000_000
