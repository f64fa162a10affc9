"""Figures of subtasks, from Spark's own tasks: compared with the input and with where keys live."""

import pytest
from pyspark.sql import SparkSession

from jobmanager.core.progress import SubtaskProgress
from tests.integration.spark.fed_files import (
    ALL_ROWS,
    ROWS_A_FILE,
    SUMS,
    feed,
    files_source,
    wait_until_read,
)
from tests.integration.spark.jobs import JobUnderTest, files_sink

FILES = 3


def figures(job: JobUnderTest) -> dict[tuple[str, int | None], SubtaskProgress]:
    assert job.running is not None
    [region] = job.running.regions
    return {(one.vertex, one.subtask): one for one in region.progress().subtasks}


def wait_until_measured(job: JobUnderTest, rows: int) -> None:
    """Spark's tasks are read every two seconds."""

    def is_measured() -> bool:
        found = figures(job).get(("rows", None))
        return found is not None and found.records_in == rows

    job.wait(is_measured)


def keys_by_subtask(spark: SparkSession) -> dict[str, int]:
    keys = sorted({str(row["k"]) for row in ALL_ROWS})
    frame = spark.createDataFrame([(key,) for key in keys], "k STRING")
    return {row[0]: row[1] for row in frame.selectExpr("k", "pmod(hash(k), 2)").collect()}


def test_each_subtask_has_the_rows_of_its_keys(job: JobUnderTest, spark: SparkSession) -> None:
    feed(job, 0, FILES - 1)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, FILES)
    wait_until_measured(job, FILES * ROWS_A_FILE)

    found = figures(job)

    # a batch is one file, of which one task sends each key once
    home = keys_by_subtask(spark)
    sent = [0, 0]
    for number in range(FILES):
        rows = ALL_ROWS[number * ROWS_A_FILE : (number + 1) * ROWS_A_FILE]
        for key in {str(row["k"]) for row in rows}:
            sent[home[key]] += 1
    source, sums = found["rows", None], [found["sums", 0], found["sums", 1]]
    assert (source.records_in, source.records_out) == (FILES * ROWS_A_FILE, sum(sent))
    assert [one.records_in for one in sums] == sent
    assert [one.records_out for one in sums] == sent  # each key of a batch is an update
    assert sum(one.bytes_in or 0 for one in sums) == source.bytes_out
    assert all((one.bytes_out or 0) > 0 and one.busy_ms > 0 for one in sums)
    assert (source.bytes_in or 0) >= sum(len(str(row["ts"])) for row in ALL_ROWS[:ROWS_A_FILE])


def test_rows_that_pass_through_are_counted_where_they_are_written(job: JobUnderTest) -> None:
    """The files are written from the plan of the batch: no stage has the batch's data set."""
    feed(job, 0, FILES - 1)
    job.define(
        files_source(),
        {"id": "few", "op": "filter", "inputs": ["rows"], "where": "v % 4 = 0"},
        files_sink("few"),
    ).start()
    wait_until_read(job, FILES)
    wait_until_measured(job, FILES * ROWS_A_FILE)

    kept = sum(1 for row in ALL_ROWS[: FILES * ROWS_A_FILE] if int(str(row["v"])) % 4 == 0)
    [whole] = figures(job).values()
    assert (whole.records_in, whole.records_out) == (FILES * ROWS_A_FILE, kept)
    assert (whole.bytes_out or 0) > 0
    assert whole.busy_ms > 0


@pytest.mark.long
def test_the_two_inputs_of_a_join_are_told_apart(job: JobUnderTest) -> None:
    feed(job, 0, FILES - 1)
    job.define(
        files_source(),
        {"id": "few", "op": "filter", "inputs": ["rows"], "where": "v % 4 = 0"},
        files_source(id="second"),
        {
            "id": "others",
            "op": "map",
            "inputs": ["second"],
            "select": {"oid": "id", "k": "k", "w": "v", "ots": "ts"},
        },
        {"id": "pairs", "op": "join", "inputs": ["few", "others"], "on": ["k"], "within": "5s"},
        files_sink("pairs"),
    ).start()
    wait_until_read(job, FILES)
    wait_until_measured(job, FILES * ROWS_A_FILE)

    found = figures(job)

    kept = sum(1 for row in ALL_ROWS[: FILES * ROWS_A_FILE] if int(str(row["v"])) % 4 == 0)
    assert found["rows", None].records_out == kept
    assert found["second", None].records_out == FILES * ROWS_A_FILE
    joined = [found["pairs", n].records_in or 0 for n in range(2)]
    assert sum(joined) == kept + FILES * ROWS_A_FILE
