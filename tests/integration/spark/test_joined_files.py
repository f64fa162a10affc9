"""`target_file_size` with `visibility: checkpoint`: few files, and each row in one of them."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path, PurePosixPath
from uuid import uuid4

import pyarrow.dataset
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.ids import AttemptNumber, CheckpointNumber
from jobmanager.core.paths.location import location_of
from taskrunner.core.staged_rows import BatchCount
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.sinks.held_files import HeldFiles
from taskrunner.sinks.joiner import BreakOff, JoinBrokenOff
from taskrunner.sinks.output_files import LOCAL, OutputFiles
from taskrunner.sinks.staged_files import staged_files
from taskrunner.snapshots.clone import read_manifest
from taskrunner.spark.connectors.hadoop_files import open_files
from taskrunner.spark.connectors.joined_files import joiner_of
from taskrunner.spark.session.hadoop_path import hadoop_path
from tests.integration.spark.fed_files import (
    ALL_ROWS,
    ROWS_A_FILE,
    feed,
    files_source,
    wait_until_read,
)
from tests.integration.spark.jobs import JobUnderTest, files_sink
from tests.support.connector_jars import installed_jars
from tests.unit.taskrunner.builders import JOB, SINK
from tests.unit.taskrunner.test_sink_directory import a_sink

REPOSITORY = Path(__file__).parents[3]
STEPS = (
    "joined",
    "join decided",
    "record of a joined batch deleted",
    "join done",
    "small files deleted",
    "renamed",
)
IN_ONE_FILE = {"visibility": "checkpoint", "target_file_size": "1MB"}
ROWS_IN_A_BATCH = 50


def files_of(job: JobUnderTest) -> list[Path]:
    return sorted(one for one in (job.root / "out").rglob("*") if one.is_file())


def check_rows(job: JobUnderTest, files: int) -> None:
    seen = sorted((row["id"], row["k"], row["v"], row["ts"].timestamp()) for row in job.output())
    wanted = [
        (row["id"], row["k"], row["v"], datetime.fromisoformat(row["ts"]).timestamp())
        for row in ALL_ROWS[: files * ROWS_A_FILE]
    ]
    assert seen == wanted


def test_a_checkpoint_shows_one_file_and_a_restore_goes_back_between_two(
    job: JobUnderTest,
) -> None:
    # Given batches whose checkpoint is complete, and later batches with a savepoint among them
    feed(job, 0, 2)
    job.define(files_source(), files_sink("rows", **IN_ONE_FILE)).start()
    wait_until_read(job, 3)
    assert files_of(job) == []
    job.complete(job.checkpoint(1))
    assert len(files_of(job)) == 1
    check_rows(job, 3)
    feed(job, 3, 4)
    wait_until_read(job, 5)
    savepoint = job.savepoint()
    feed(job, 5, 7)
    wait_until_read(job, 8)
    # When they are shown together
    job.complete(job.checkpoint(2))
    # Then batches before and after the savepoint are in files of their own
    assert len(files_of(job)) == 3
    check_rows(job, 8)
    # and another job continues from the savepoint
    job.stop_at_boundary()
    other = job.successor()
    other.start(savepoint=savepoint)
    try:
        check_rows(other, 5)
        wait_until_read(other, 8)
        other.complete(other.checkpoint(1))
        check_rows(other, 8)
        assert len(files_of(other)) == 3
    finally:
        other.stop()


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=[] if step == "join decided" else [pytest.mark.long])
        for step in STEPS
    ],
)
def test_each_row_is_there_once_whenever_the_runner_is_killed(job: JobUnderTest, step: str) -> None:
    """kill -9 of the driver's process while it joins and shows three batches."""
    feed(job, 0, 2)
    job.define(files_source(), files_sink("rows", **IN_ONE_FILE))
    killed = subprocess.run(
        [sys.executable, "-m", "tests.integration.spark.joining_driver", step],
        input=repr((str(job.root), job.id.hex, job.document, 3)),
        cwd=REPOSITORY,
        env=dict(os.environ),
        text=True,
        check=False,
        timeout=300,
    )
    assert killed.returncode == -9
    job.attempt = AttemptNumber(1)
    # When the next attempt goes on
    job.start(read_manifest(job.layout, CheckpointNumber(1)))
    # Then what was shown is there once, and what follows too
    check_rows(job, 3)
    assert len(files_of(job)) == (3 if step == "joined" else 1)
    feed(job, 3, 4)
    wait_until_read(job, 5)
    job.complete(job.checkpoint(2))
    check_rows(job, 5)
    [private] = job.root.glob(f".out.headgate/{job.id.hex}/*")
    assert list((private / "staging").iterdir()) == []


# ── formats ───────────────────────────────────────────────────────────────────


def batch_rows(spark: SparkSession, batch: int, file_format: FileFormat) -> DataFrame:
    """Rows with a null, an empty text, line ends and a number that is no whole one."""
    numbers = spark.range(batch * ROWS_IN_A_BATCH, (batch + 1) * ROWS_IN_A_BATCH).repartition(3)
    if file_format is FileFormat.TEXT:
        return numbers.selectExpr("concat('row ', id, '\\r') AS value")
    return numbers.selectExpr(
        "id",
        "IF(id % 5 = 0, NULL, concat('k\"', id % 7, IF(id % 3 = 0, '\\r,', ''))) AS k",
        "CAST(id AS DECIMAL(12, 3)) / 7 AS price",
        "timestamp_seconds(id) AS ts",
        f"CAST(id % 100 AS {'INT' if file_format is FileFormat.AVRO else 'BYTE'}) AS b",
    )


class Batches:
    """Batches that Spark writes and a sink holds."""

    def __init__(
        self,
        spark: SparkSession,
        file_format: FileFormat,
        sink: SinkDirectory,
        options: dict[str, str],
        files: OutputFiles = LOCAL,
    ) -> None:
        self.spark = spark
        self.format = file_format
        self.sink = sink
        self.options = options
        self.files = files
        self.schema = StructType()

    def write(self, *numbers: int) -> None:
        for number in numbers:
            rows = batch_rows(self.spark, number, self.format)
            staged = self.sink.stage(number)
            rows.write.format(self.format).options(**self.options).save(self.files.uri(staged))
            found = staged_files(staged, self.format, self.files)
            assert len(found) == 3
            self.sink.commit(number, staged, BatchCount(ROWS_IN_A_BATCH), found, held=True)
            self.schema = rows.schema

    def held(self, target: int = 1 << 20) -> HeldFiles:
        joiner = joiner_of(self.spark, self.files, self.format, self.options, self.schema)
        assert joiner is not None
        return HeldFiles(self.sink, joiner, target)


FORMATS = [
    ("parquet", {}),
    ("csv", {"header": "true", "lineSep": "\n"}),
    ("avro", {"compression": "deflate"}),
    *(
        pytest.param(name, options, marks=[pytest.mark.long])
        for name, options in [
            ("orc", {}),
            ("json", {}),
            ("csv", {"lineSep": "|"}),
            ("text", {}),
            ("parquet", {"compression": "gzip"}),
        ]
    ),
]


def compared(rows: DataFrame) -> list[str]:
    return sorted(json.dumps(row.asDict(), default=str) for row in rows.collect())


@pytest.mark.parametrize(("name", "options"), FORMATS)
def test_a_joined_file_has_the_rows_of_its_parts_in_every_format(
    spark: SparkSession, tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    if name == "avro" and not installed_jars():
        pytest.skip("needs the connector of Avro")
    file_format = FileFormat(name)
    batches = Batches(spark, file_format, a_sink(tmp_path), options)
    batches.write(0, 1, 2)
    schema = batches.schema
    staged = [str(one) for one in tmp_path.glob(".sink.headgate/*/*/staging/*/part-*")]
    reader = spark.read.format(name).options(**options).schema(schema)
    before = compared(reader.load([hadoop_path(Path(one)) for one in staged]))
    assert len(before) == 3 * ROWS_IN_A_BATCH

    batches.held().join_up_to(2, BreakOff())
    batches.sink.show_up_to(2)

    [file] = (tmp_path / "sink").iterdir()
    reader = spark.read.format(name).options(**options).schema(schema)
    assert compared(reader.load(hadoop_path(file))) == before


def test_directories_are_joined_each_for_itself(spark: SparkSession, tmp_path: Path) -> None:
    """With names that are encoded; readers find the columns."""
    sink = a_sink(tmp_path)
    days = 10
    day = f"concat('d ', id % {days}, IF(id % 2 = 0, '', '%*{{x}}/é'))"
    rows = spark.range(0, 50).selectExpr("id", f"{day} AS day")
    for batch in range(2):
        staged = sink.stage(batch)
        some = rows.where(f"id % 3 != {batch}")
        count = some.count()
        some.coalesce(1).write.partitionBy("day").parquet(LOCAL.uri(staged))
        found = staged_files(staged, FileFormat.PARQUET)
        sink.commit(batch, staged, BatchCount(count), found, held=True)
    schema = StructType([rows.schema["id"]])
    joiner = joiner_of(spark, LOCAL, FileFormat.PARQUET, {}, schema)
    assert joiner is not None
    HeldFiles(sink, joiner, 1 << 20).join_up_to(1, BreakOff())
    sink.show_up_to(1)

    files = [one for one in (tmp_path / "sink").rglob("*") if one.is_file()]
    assert len(files) == days
    assert all(pyarrow.parquet.read_schema(one).names == ["id"] for one in files)
    whole = pyarrow.dataset.dataset(tmp_path / "sink", format="parquet", partitioning="hive")
    seen = [(row["id"], row["day"]) for row in whole.to_table().to_pylist()]
    wanted = [
        (n, f"d {n % days}" + ("" if n % 2 == 0 else "%*{x}/é"))
        for batch in (0, 1)
        for n in range(50)
        if n % 3 != batch
    ]
    assert sorted(seen) == sorted(wanted)


def test_files_about_as_large_as_wanted_are_made(spark: SparkSession, tmp_path: Path) -> None:
    batches = Batches(spark, FileFormat.JSON, a_sink(tmp_path), {})
    batches.write(*range(6))

    batches.held(target=10_000).join_up_to(5, BreakOff())
    batches.sink.show_up_to(5)

    sizes = [one.stat().st_size for one in (tmp_path / "sink").iterdir()]
    assert len(sizes) == round(sum(sizes) / 10_000)
    assert all(5_000 < one < 20_000 for one in sizes), sizes


def test_the_spark_job_of_a_join_is_broken_off(spark: SparkSession, tmp_path: Path) -> None:
    batches = Batches(spark, FileFormat.PARQUET, a_sink(tmp_path), {})
    batches.write(0, 1)
    break_off = BreakOff()
    break_off.ask()

    with pytest.raises(JoinBrokenOff):
        batches.held().join_up_to(1, break_off)
    batches.sink.show_up_to(1)

    assert len(list((tmp_path / "sink").iterdir())) == 6


@pytest.mark.long
@pytest.mark.parametrize("store", ["hdfs", pytest.param("bucket", id="s3a")])
@pytest.mark.parametrize("name", ["parquet", "orc", "csv"])
def test_files_are_joined_on_a_remote_file_system(
    spark: SparkSession, request: pytest.FixtureRequest, store: str, name: str
) -> None:
    place = request.getfixturevalue(store)
    options = {"header": "true", "lineSep": "\n"} if name == "csv" else {}
    if store == "bucket":
        options |= place.options
    files = open_files(spark, location_of(place.uri, "/"), options)
    root = PurePosixPath(f"/{uuid4().hex}/all orders")
    sink = SinkDirectory(root, JOB, SINK, AttemptNumber(1), nullcontext, files=files)
    batches = Batches(spark, FileFormat(name), sink, options, files)
    batches.write(0, 1)
    batches.held().join_up_to(1, BreakOff())
    sink.show_up_to(1)

    [file] = files.names(root)
    reader = spark.read.format(name).options(**options).schema(batches.schema)
    rows = reader.load(files.uri(root / file))
    assert sorted(row["id"] for row in rows.collect()) == list(range(2 * ROWS_IN_A_BATCH))
