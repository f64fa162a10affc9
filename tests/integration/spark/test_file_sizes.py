"""`target_file_size` against the sizes of real files, and the rows that a plain reader finds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from taskrunner.spark.connectors.files import ExactlyOnceFiles
from tests.integration.spark.fed_files import feed, files_source, wait_until_read
from tests.integration.spark.jobs import JobUnderTest, files_sink

ROWS = 40_000


def run(job: JobUnderTest, **sink: Any) -> list[Path]:
    """Writes the rows of a directory with many small files, and returns the files of the sink."""
    source = {
        "id": "rows",
        "op": "source",
        "connector": "files",
        "format": "parquet",
        "path": "in",
        "schema": "id BIGINT, k STRING, v DOUBLE",
    }
    job.define(source, files_sink("rows", **sink), mode="batch").run()
    return sorted(one for one in (job.root / "out").rglob("*") if one.is_file())


@pytest.fixture
def many_files(job: JobUnderTest) -> Iterator[JobUnderTest]:
    """About 16 bytes a row that no compression makes smaller, in 16 files."""
    spark = job.spark
    many_tasks = {
        "spark.sql.files.maxPartitionBytes": "64KB",
        "spark.sql.files.openCostInBytes": "0",
    }
    for name, value in many_tasks.items():
        spark.conf.set(name, value)
    rows = spark.range(ROWS).selectExpr("id", "CAST(id % 3 AS STRING) AS k", "rand(7) AS v")
    rows.repartition(16).write.parquet(str(job.root / "in"))
    yield job
    for name in many_tasks:
        spark.conf.unset(name)


def rows_in(job: JobUnderTest) -> list[int]:
    found = pyarrow.dataset.dataset(job.root / "out", format="parquet", partitioning="hive")
    return sorted(found.to_table(columns=["id"])["id"].to_pylist())


def test_files_have_about_the_wanted_size(many_files: JobUnderTest) -> None:
    target = 128 * 1024
    job = many_files
    files = run(job, target_file_size="128KB")

    sizes = [one.stat().st_size for one in files]
    assert rows_in(job) == list(range(ROWS))
    assert max(sizes) < 2 * target, sizes
    assert sum(sizes) / len(sizes) > target / 2, sizes


@pytest.mark.long
def test_a_small_batch_is_one_file_and_without_a_target_one_for_each_task(
    many_files: JobUnderTest,
) -> None:
    job = many_files
    assert len(run(job, target_file_size="128MB")) == 1
    assert rows_in(job) == list(range(ROWS))

    other = job.successor()
    assert len(run(other, path="out/other")) > 4


@pytest.mark.long
def test_each_directory_of_a_small_batch_has_one_file(many_files: JobUnderTest) -> None:
    job = many_files
    files = run(job, target_file_size="128MB", partition_by=["k"])

    assert [one.parent.name for one in files] == ["k=0", "k=1", "k=2"]
    assert rows_in(job) == list(range(ROWS))


def test_a_stream_learns_the_size_of_rows_from_its_own_files(
    job: JobUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a new attempt: the record of the newest batch says it."""
    learnt: list[float | None] = []
    write = ExactlyOnceFiles.write

    def noting(self: ExactlyOnceFiles, rows: Any, batch: int) -> int:
        learnt.append(self._bytes_per_row or self._directory.last_bytes_per_row())
        return write(self, rows, batch)

    monkeypatch.setattr(ExactlyOnceFiles, "write", noting)
    feed(job, 0, 1)
    job.define(files_source(), files_sink("rows", target_file_size="1MB")).start()
    wait_until_read(job, 2)
    job.stop_at_boundary()
    feed(job, 2, 2)
    job.start()
    wait_until_read(job, 3)

    files = [one for one in (job.root / "out").rglob("*") if one.is_file()]
    assert len(files) == 3, "one file for each batch, whatever its tasks"
    assert learnt[0] is None
    assert all(one is not None and one > 0 for one in learnt[1:])
    assert len(job.output()) == 120
