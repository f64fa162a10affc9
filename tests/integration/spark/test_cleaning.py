"""A session after a job: what the job made is gone, and the next job finds Spark as it was."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from taskrunner.core.process_traces import doubts
from taskrunner.spark.run import cleaning
from taskrunner.spark.session.session import WarmSession
from tests.support.server import eventually


@pytest.fixture
def session(spark: SparkSession) -> Iterator[WarmSession]:
    """A session of its own in the JVM of all tests."""
    made = WarmSession()
    made._spark = spark.newSession()
    yield made
    SparkSession._instantiatedSession = SparkSession._activeSession = spark
    runtime: Any = spark._jvm
    java_session = runtime.org.apache.spark.sql.classic.SparkSession
    java_session.setDefaultSession(spark._jsparkSession)
    java_session.setActiveSession(spark._jsparkSession)


def run_in_python(spark: SparkSession) -> int:
    def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return spark.range(3).mapInArrow(unchanged, "id BIGINT").count()


@pytest.mark.long  # starts Python workers twice
def test_what_a_job_made_is_gone_and_the_next_job_can_do_the_same(session: WarmSession) -> None:
    # Given a job that made a view, a function, settings, cached rows and a Python worker
    before = session.spark
    assert before is not None
    cleaning.end_workers(before)
    first = cleaning.traces(session)
    before.range(5).createOrReplaceTempView("of_a_job")
    before.udf.register("of_a_job", lambda value: value)
    before.conf.set("spark.sql.shuffle.partitions", "7")
    before.table("of_a_job").cache().count()
    assert run_in_python(before) == 3
    dirty = cleaning.traces(session)
    assert dirty.cached == 1
    assert dirty.workers > 0
    assert doubts(first, dirty)

    # When the process is cleaned
    cleaning.clean(session)

    # Then none of them is left, and Python works again
    after = session.spark
    assert after is not None
    # threads end a moment after what they did
    eventually(lambda: doubts(first, cleaning.traces(session)) == [], within=5)
    assert not after.catalog.tableExists("of_a_job")
    assert not after.catalog.functionExists("of_a_job")
    assert after.conf.get("spark.sql.shuffle.partitions") == "2"
    assert run_in_python(after) == 3


def test_a_view_that_all_sessions_see_is_a_doubt(session: WarmSession) -> None:
    spark = session.spark
    assert spark is not None
    spark.range(1).createGlobalTempView("for_all")
    try:
        cleaning.clean(session)

        left = cleaning.traces(session)
    finally:
        spark.catalog.dropGlobalTempView("for_all")

    assert left.tables == ("for_all",)
    assert doubts(left, left) == ["tables and views are left: for_all"]
