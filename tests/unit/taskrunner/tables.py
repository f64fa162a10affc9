"""Real tables in a directory, as tests write and read them without Spark."""

import json
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Protocol

import deltalake
import pyarrow
import pyarrow.parquet
import pyiceberg.table

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.ids import AttemptNumber, JobId
from taskrunner.core.staged_rows import BatchCount
from taskrunner.sinks.delta_table import DeltaCommits
from taskrunner.sinks.iceberg_table import (
    IcebergCommits,
    create_table,
    open_catalog,
    open_table,
)
from taskrunner.sinks.staged_files import staged_files
from taskrunner.sinks.table_output import CommittedTable, TableOutput
from tests.unit.taskrunner.builders import JOB, SINK

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "day", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)


class TableUnderTest(Protocol):
    """A table that is partitioned by `day`; its rows are read by the library's own reader."""

    has_partition_columns: bool
    """Whether the files have the partition's columns, too."""

    def commits(self) -> CommittedTable: ...
    def ids(self) -> list[int]: ...
    def append_others(self, *ids: int) -> None: ...
    def rewrite(self) -> None:
        """Writes the rows anew, into other files, as a compaction does."""
        ...


class DeltaUnderTest:
    has_partition_columns = False

    def __init__(self, root: Path) -> None:
        self.path = root / "table"
        DeltaCommits.create(self.path, SCHEMA, ["day"])

    def commits(self) -> CommittedTable:
        return DeltaCommits(self.path)

    def opened(self) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(self.path)

    def ids(self) -> list[int]:
        found = self.opened().to_pyarrow_table(columns=["id"])
        return sorted(found.column("id").to_pylist())

    def append_others(self, *ids: int) -> None:
        deltalake.write_deltalake(self.path, others(*ids), mode="append")

    def rewrite(self) -> None:
        self.opened().optimize.compact()


class IcebergUnderTest:
    has_partition_columns = True

    def __init__(self, root: Path) -> None:
        root.mkdir(exist_ok=True)
        uri, warehouse = f"sqlite:///{root}/catalog.db", root.as_uri()
        self._catalog = open_catalog({"uri": uri, "warehouse": warehouse})
        with closing(self._catalog):
            create_table(self._catalog, "shop.orders", others(1).schema, ["day"])

    def opened(self) -> pyiceberg.table.Table:
        with closing(self._catalog):
            found = open_table(self._catalog, "shop.orders")
        assert found is not None
        return found

    def commits(self) -> CommittedTable:
        return IcebergCommits(self.opened())

    def ids(self) -> list[int]:
        return sorted(self.opened().scan().to_arrow().column("id").to_pylist())

    def append_others(self, *ids: int) -> None:
        with closing(self._catalog):
            self.opened().append(others(*ids))

    def rewrite(self) -> None:
        with closing(self._catalog):
            table = self.opened()
            table.overwrite(table.scan().to_arrow())


def others(*ids: int) -> pyarrow.Table:
    return pyarrow.table({"id": pyarrow.array(ids, pyarrow.int64()), "day": ["x"] * len(ids)})


def an_output(
    table: CommittedTable,
    attempt: int = 1,
    job: JobId = JOB,
    after_step: Callable[[str], None] = lambda step: None,
) -> TableOutput:
    return TableOutput(table, job, SINK, AttemptNumber(attempt), nullcontext, after_step)


def stage(table: TableUnderTest, output: TableOutput, batch: int, parts: int = 2) -> Path:
    """What executors do with a batch: `parts` files, each in the partition of its number."""
    staged = output.stage(batch)
    for part in range(parts):
        path = staged / f"day={part}%3A" / f"part-{part:05d}-abc.parquet"
        path.parent.mkdir(parents=True)
        rows = pyarrow.table({"id": pyarrow.array([10 * batch + part], pyarrow.int64())})
        if table.has_partition_columns:
            rows = rows.append_column("day", pyarrow.array([f"{part}:"]))
        pyarrow.parquet.write_table(rows, path)
    (staged / "_SUCCESS").touch()
    return staged


def write(table: TableUnderTest, output: TableOutput, batch: int, parts: int = 2) -> None:
    """What the Spark sink does with a batch; the ids of its rows are 10 * batch + part."""
    if output.has(batch):
        return
    staged = stage(table, output, batch, parts)
    output.commit(batch, staged, BatchCount(parts), staged_files(staged, FileFormat.PARQUET))


def expected(last: int, parts: int = 2) -> list[int]:
    return [10 * batch + part for batch in range(last + 1) for part in range(parts)]
