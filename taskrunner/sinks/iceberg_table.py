"""An Iceberg table on a file system: commits of whole batches, by the `pyiceberg` library.

A property of the table names the last batch of each job's sink. It changes in the same commit that
adds the batch's files, so the table itself tells which batch of a sink is its last, also after old
snapshots were expired. The summary of each snapshot has job, sink, batch and number of files; a
withdrawal removes the files of later batches and sets the property back, in one commit.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from taskrunner.core.table_columns import TableColumn
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
    from pyarrow import Schema as ArrowSchema
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.snapshots import Snapshot

_OURS = "headgate"
_PLAIN_TYPES = {
    "long": "bigint",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}
"""Iceberg's names of types that Spark calls otherwise."""


class IcebergFiles:
    """The rows of one snapshot of a table, as the files that hold them."""

    def __init__(self, table: "Table", snapshot: int | None = None) -> None:
        """The current snapshot if none is named. Raises `TableNotUsable`."""
        self._name = _name(table)
        if snapshot is not None and table.snapshot_by_id(snapshot) is None:
            known = ", ".join(str(one.snapshot_id) for one in table.snapshots()[-5:]) or "none"
            raise TableNotUsable(
                f"{self._name} has no snapshot {snapshot}: it may have been expired. Its newest "
                f"snapshots are: {known}"
            )
        self._table = table
        self._scan = table.scan(snapshot_id=snapshot)
        self._tasks: list[FileScanTask] = list(self._scan.plan_files())
        if found := list(self._obstacles()):
            raise TableNotUsable(f"{self._name} cannot be read: it has {', '.join(found)}")

    @property
    def snapshot(self) -> int | None:
        """None: the table is empty."""
        found = self._scan.snapshot()
        return None if found is None else found.snapshot_id

    @property
    def columns(self) -> list[TableColumn]:
        return columns_of(self._scan.projection())

    def files(self) -> list[str]:
        """The URIs of the files."""
        return [one.file.file_path for one in self._tasks]

    def _obstacles(self) -> Iterator[str]:
        if any(one.delete_files for one in self._tasks):
            yield "files of deleted rows (rewrite its data files to get rid of them)"
        formats = {one.file.file_format.value for one in self._tasks} - {"PARQUET"}
        yield from (f"files in the format {one}" for one in sorted(formats))
        names = {one.field_id: one.name for one in self._scan.projection().fields}
        for schema in self._table.schemas().values():
            for field in schema.fields:
                now = names.get(field.field_id, field.name)
                if now != field.name:
                    yield f"the column {now}, which was called {field.name}"


class IcebergCommits:
    """The table as its writers see it (`CommittedTable`)."""

    def __init__(self, table: "Table") -> None:
        self._table = table
        self._location = _local(table)

    @property
    def name(self) -> str:
        return _name(self._table)

    @property
    def data(self) -> Path:
        return self._location / "data"

    @property
    def columns(self) -> list[TableColumn]:
        return columns_of(self._table.schema())

    @property
    def partitioned_by(self) -> Sequence[str]:
        schema = self._table.schema()
        return [schema.find_column_name(one.source_id) or "" for one in self._table.spec().fields]

    def obstacles(self) -> list[str]:
        """Every reason why files cannot simply be added to the table."""
        transforms = [
            f"the partition field {one.name} ({one.transform}): only columns as they are can be "
            "written"
            for one in self._table.spec().fields
            if str(one.transform) != "identity"
        ]
        version = self._table.metadata.format_version
        return [*transforms, *([f"the format version {version}"] if version > 2 else [])]

    def last_batch(self, job: JobId, sink: VertexId) -> int | None:
        with closing(self._table.catalog):
            self._table.refresh()
        found = self._table.properties.get(_property(job, sink))
        return None if found is None else int(found)

    def append(
        self, batch: WrittenBatch, attempt: AttemptNumber, root: Path, files: Sequence[DataFile]
    ) -> None:
        told = _summary(job=batch.job.hex, sink=batch.sink, batch=batch.batch)
        told |= _summary(attempt=attempt, files=len(files))
        with closing(self._table.catalog), self._table.transaction() as transaction:
            transaction.add_files(
                [f"file://{one.path}" for one in files],  # the library encodes nothing
                snapshot_properties=told,
                check_duplicate_files=False,  # their names are new
            )
            transaction.set_properties({_property(batch.job, batch.sink): str(batch.batch)})
        self._sync()

    def roll_back(self, job: JobId, sink: VertexId, kept: Mapping[JobId, int]) -> Sequence[int]:
        with closing(self._table.catalog):
            self._table.refresh()
            return self._withdraw(job, sink, kept)

    def _withdraw(self, job: JobId, sink: VertexId, kept: Mapping[JobId, int]) -> Sequence[int]:
        active = {one.file.file_path: one.file for one in self._table.scan().plan_files()}
        snapshots = list(_ancestors(self._table))
        found = withdrawal(
            self.name,
            sink,
            _commits(snapshots),
            active,
            kept,
            is_whole=not snapshots or snapshots[-1].parent_snapshot_id is None,
        )
        if not found.files:
            return found.batches
        withdrawn = " ".join(f"{one.hex}:{batch}" for one, batch in kept.items())
        with self._table.transaction() as transaction:
            update = transaction.update_snapshot(_summary(sink=sink, withdrawn=withdrawn))
            with update.overwrite() as overwrite:
                for path in found.files:
                    overwrite.delete_data_file(active[path])
            transaction.set_properties({_property(job, sink): str(kept[job])})
        self._sync()
        return found.batches

    def _sync(self) -> None:
        """The library does not sync the files that it writes; the catalogue is durable."""
        files = [self._table.metadata_location]
        snapshot = self._table.current_snapshot()
        if snapshot is not None:
            files.append(snapshot.manifest_list)
            files += [
                one.manifest_path
                for one in snapshot.manifests(self._table.io)
                if one.added_snapshot_id == snapshot.snapshot_id
            ]
        durable.sync_all(map(_path, files), inside=self._location / "metadata")


def open_catalog(properties: Mapping[str, str]) -> "Catalog":
    """The catalogue; close it after use: it can be used again, and then connects anew. Between two
    batches no connection waits, so a database can be restarted. Raises `TableNotUsable`.
    """
    catalogs = imported("pyiceberg.catalog", "iceberg")
    name = properties.get("name", "default")
    rest = {key: value for key, value in properties.items() if key != "name"}
    try:
        found: Catalog = catalogs.load_catalog(name, **{"type": "sql", **rest})
    except ValueError as error:
        raise TableNotUsable(f"the Iceberg catalogue {name!r} cannot be used: {error}") from error
    return found


def open_table(catalog: "Catalog", name: str) -> "Table | None":
    """None: there is no such table."""
    exceptions = imported("pyiceberg.exceptions", "iceberg")
    try:
        return catalog.load_table(name)
    except exceptions.NoSuchTableError:
        return None


def create_table(
    catalog: "Catalog", name: str, schema: "ArrowSchema", partition_by: Sequence[str]
) -> "Table":
    """Makes the table, or opens the table that another process has made."""
    exceptions = imported("pyiceberg.exceptions", "iceberg")
    namespace = name.rpartition(".")[0]
    catalog.create_namespace_if_not_exists(namespace)
    try:
        transaction = catalog.create_table_transaction(name, schema)
        with transaction:
            if partition_by:
                with transaction.update_spec() as spec:
                    for column in partition_by:
                        spec.add_identity(column)
    except (exceptions.TableAlreadyExistsError, exceptions.CommitFailedException):
        pass  # another process was first; anything else is told when the table is loaded
    return catalog.load_table(name)


def columns_of(schema: Any) -> list[TableColumn]:
    """The columns of an Iceberg schema, with the names that Spark has for their types."""
    return [
        TableColumn(one.name, spark_type(one.field_type), not one.required) for one in schema.fields
    ]


def spark_type(found: Any) -> str:
    types = imported("pyiceberg.types", "iceberg")
    if isinstance(found, types.StructType):
        inner = ",".join(f"{one.name}:{spark_type(one.field_type)}" for one in found.fields)
        return f"struct<{inner}>"
    if isinstance(found, types.ListType):
        return f"array<{spark_type(found.element_type)}>"
    if isinstance(found, types.MapType):
        return f"map<{spark_type(found.key_type)},{spark_type(found.value_type)}>"
    text = str(found).replace(" ", "")
    return _PLAIN_TYPES.get(text, text)


def _name(table: "Table") -> str:
    return f"the Iceberg table {'.'.join(table.name())}"


def _local(table: "Table") -> Path:
    if urlsplit(table.location()).scheme not in ("", "file"):
        raise TableNotUsable(
            f"{_name(table)} is at {table.location()}: batches can be committed only to tables on "
            "a file system that is mounted here (file:)"
        )
    return _path(table.location())


def _path(location: str) -> Path:
    """The path in a location; the library encodes nothing."""
    return Path(location.removeprefix("file://").removeprefix("file:"))


def _property(job: JobId, sink: VertexId) -> str:
    return f"{_OURS}.{job.hex}.{sink}"


def _summary(**told: Any) -> dict[str, str]:
    return {f"{_OURS}.{name}": str(value) for name, value in told.items()}


def _ancestors(table: "Table") -> "Iterator[Snapshot]":
    """The snapshots that led to the current snapshot, the newest first, while they are known."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)


def _commits(snapshots: "Sequence[Snapshot]") -> Iterator[SinkCommit]:
    """What sinks say about their commits, in the order of the history."""
    for snapshot in snapshots:
        told = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if f"{_OURS}.sink" not in told:
            continue
        sink = VertexId(told[f"{_OURS}.sink"])
        if withdrawn := told.get(f"{_OURS}.withdrawn"):
            pairs = [one.split(":") for one in withdrawn.split(" ")]
            yield BatchesWithdrawn(sink, {JobId(UUID(job)): int(batch) for job, batch in pairs})
        else:
            job = JobId(UUID(told[f"{_OURS}.job"]))
            written = WrittenBatch(job, sink, int(told[f"{_OURS}.batch"]))
            yield BatchAppended(written, int(told[f"{_OURS}.files"]))
