"""Real tables in a directory, as tests write and read them without Spark."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import deltalake
import pyarrow
import pyarrow.parquet

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.ids import AttemptNumber, JobId
from taskrunner.core.staged_rows import BatchCount
from taskrunner.sinks.delta_table import DeltaCommits
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


class DeltaUnderTest:
    """A Delta table that is partitioned by `day`; its rows are read by the library's reader."""

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

    def compact(self) -> None:
        self.opened().optimize.compact()


def others(*ids: int) -> pyarrow.Table:
    return pyarrow.table({"id": pyarrow.array(ids, pyarrow.int64()), "day": ["x"] * len(ids)})


def an_output(
    table: CommittedTable,
    attempt: int = 1,
    job: JobId = JOB,
    after_step: Callable[[str], None] = lambda step: None,
) -> TableOutput:
    return TableOutput(table, job, SINK, AttemptNumber(attempt), nullcontext, after_step)


def stage(output: TableOutput, batch: int, parts: int = 2) -> Path:
    """What executors do with a batch: `parts` files, each in the partition of its number."""
    staged = output.stage(batch)
    for part in range(parts):
        path = staged / f"day={part}%3A" / f"part-{part:05d}-abc.parquet"
        path.parent.mkdir(parents=True)
        rows = pyarrow.table({"id": pyarrow.array([10 * batch + part], pyarrow.int64())})
        pyarrow.parquet.write_table(rows, path)
    (staged / "_SUCCESS").touch()
    return staged


def write(output: TableOutput, batch: int, parts: int = 2) -> None:
    """What the Spark sink does with a batch; the ids of its rows are 10 * batch + part."""
    if output.has(batch):
        return
    staged = stage(output, batch, parts)
    output.commit(batch, staged, BatchCount(parts), staged_files(staged, FileFormat.PARQUET))


def expected(last: int, parts: int = 2) -> list[int]:
    return [10 * batch + part for batch in range(last + 1) for part in range(parts)]
