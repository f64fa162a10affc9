"""What kind of failure it is that a real Spark throws, and how a query says that it is stuck."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from jobmanager.core.progress import RegionProgress
from jobmanager.protocol.messages import FailureReport
from taskrunner.reports import failure_of, region_failure
from taskrunner.spark.run.region_query import QueryPhase
from tests.integration.spark.fed_files import feed, files_source, wait_until_read
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink, some_rows, table


def failing(job: JobUnderTest, *vertices: Row) -> FailureReport:
    """Why the job failed: while it was prepared, or in a batch."""
    try:
        started = job.define(*vertices).start()
        region = started.regions[0]
        deadline = time.monotonic() + 120
        while region.poll() is not QueryPhase.FAILED:
            assert time.monotonic() < deadline, "it did not fail"
            time.sleep(0.05)
        error = region_failure(started)
    except Exception as raised:
        error = raised
    finally:
        job.stop()
    assert isinstance(error, Exception)
    return failure_of(error)


def a_map(**select: str) -> Row:
    return {"id": "m", "op": "map", "inputs": ["rows"], "select": select}


def files(path: str, **fields: Any) -> Row:
    source = {"id": "rows", "op": "source", "connector": "files", "format": "parquet"}
    return {**source, "path": path, "schema": "v BIGINT", **fields}


@pytest.mark.parametrize(
    ("expression", "kind", "words"),
    [
        ("v / (id - 7)", "data", "[DIVIDE_BY_ZERO]"),
        ("cast(k AS INT)", "data", "[CAST_INVALID_INPUT]"),
        ("raise_error('no such bid')", "user_code", "[USER_RAISED_EXCEPTION] no such bid"),
    ],
)
def test_an_expression_that_raises(
    job: JobUnderTest, expression: str, kind: str, words: str
) -> None:
    failure = failing(job, table(some_rows(20)), a_map(x=expression), files_sink("m"))

    assert (failure.kind, failure.is_restartable, failure.region) == (kind, True, "out")
    assert failure.message.startswith(words)
    assert "org.apache.spark" in failure.stack


def test_a_column_that_is_not_there(job: JobUnderTest) -> None:
    failure = failing(job, table(some_rows(5)), a_map(x="prize + 1"), files_sink("m"))

    assert (failure.kind, failure.is_restartable) == ("invalid_job", False)
    assert "vertex m: select.x: [UNRESOLVED_COLUMN" in failure.message


def test_input_that_is_not_there(job: JobUnderTest) -> None:
    failure = failing(job, files("nowhere"), files_sink("rows"))

    assert (failure.kind, failure.is_restartable) == ("invalid_job", False)
    assert "[PATH_NOT_FOUND]" in failure.message
    assert "nowhere" in failure.message


def test_a_corrupt_file_may_be_replaced(job: JobUnderTest) -> None:
    (job.root / "in").mkdir()
    (job.root / "in" / "a.parquet").write_bytes(b"this is no parquet file, and never was")

    failure = failing(job, files("in"), files_sink("rows"))

    assert (failure.kind, failure.is_restartable) == ("data", True)
    assert "a.parquet" in failure.message


def test_a_schema_that_does_not_fit_the_files_is_final(
    job: JobUnderTest, spark: SparkSession
) -> None:
    spark.range(3).selectExpr("'text' AS v").write.parquet(str(job.root / "in"))

    failure = failing(job, files("in"), files_sink("rows"))

    assert (failure.kind, failure.is_restartable) == ("data", False)
    assert "PARQUET_COLUMN_DATA_TYPE_MISMATCH" in failure.message


def test_a_python_function_that_raises(spark: SparkSession) -> None:
    def price(row: int) -> int:
        raise ValueError("row 17 has no price")

    with pytest.raises(PythonException) as raised:
        spark.range(3).select(udf(price, "BIGINT", useArrow=False)("id")).collect()

    failure = failure_of(raised.value)
    assert (failure.kind, failure.is_restartable) == ("user_code", True)
    assert failure.message == "PythonException: ValueError: row 17 has no price"
    assert "row 17" in failure.stack


def test_input_that_moved_after_the_state_was_written_fails_at_once(job: JobUnderTest) -> None:
    # Given a job that has read some files
    feed(job, 0, 1)
    job.define(files_source(), files_sink("rows")).start()
    wait_until_read(job, 2)
    job.stop_at_boundary()
    # When the files are moved, the graph says so, and it goes on from where it was
    (job.root / "in").rename(job.root / "moved")
    failure = failing(job, {**files_source(), "path": "moved"}, files_sink("rows"))
    # Then no restart is tried, and the message says what to do
    assert (failure.kind, failure.is_restartable) == ("invalid_job", False)
    assert "the input of a files source has moved" in failure.message
    assert str(job.root / "moved") in failure.message
    assert "put the files back" in failure.message


def test_a_batch_that_does_not_end_is_told_from_a_query_without_input(job: JobUnderTest) -> None:
    # Given a query whose second batch sleeps
    slow = "CASE WHEN id >= 200 THEN reflect('java.lang.Thread', 'sleep', 8000L) ELSE 'no' END"
    mapped = {"id": "m", "op": "map", "inputs": ["rows"], "select": {"x": slow}}
    feed(job, 0, 0)
    region = job.define(files_source(), mapped, files_sink("m")).start().regions[0]
    wait_until_read(job, 1)
    # When there is nothing more to read, it is idle, and not stuck
    idle = _when(region, lambda seen: bool(seen.is_idle) and seen.batch_started_at is None)
    # and when there is, and the batch does not end, that shows
    feed(job, 5, 5)
    _when(region, lambda seen: seen.batch_started_at is not None)
    stuck = _when(region, lambda seen: (seen.unmoved_ms or 0) > 2000)

    assert (idle.input_waiting, idle.batch_started_at) == (False, None)
    assert (idle.unmoved_ms or 0) < 1000
    assert stuck.input_waiting is True
    assert stuck.batch_started_at is not None
    assert stuck.activity == "Processing new data"
    assert stuck.median_batch_ms > 0


def _when(region: Any, condition: Callable[[RegionProgress], bool]) -> RegionProgress:
    """The first look that fits."""
    deadline = time.monotonic() + 120
    while True:
        seen = region.progress()
        assert isinstance(seen, RegionProgress)
        if condition(seen):
            return seen
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
