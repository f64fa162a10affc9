"""One Spark session for all tests of this directory, and jobs that run in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from taskrunner.spark.session.session import close_session, open_session, settings
from tests.integration.spark.jobs import JobUnderTest
from tests.integration.spark.runner_process import Site


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    extra = {
        # a snapshot of the state every few batches, so that restores meet both kinds of files
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
        "spark.log.level": "ERROR",
    }
    session = open_session(
        settings(name="tests", master="local[2]", parallelism=2, extra=extra),
    )
    yield session
    close_session(session)


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Iterator[JobUnderTest]:
    under_test = JobUnderTest(spark, tmp_path)
    yield under_test
    under_test.stop()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    for process in site.processes:
        process.end()
