"""One Spark session for all tests of this directory, and jobs that run in it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from taskrunner.spark.session import java_options
from taskrunner.spark.session.session import close_session, open_session, settings
from tests.integration.spark.jobs import JobUnderTest
from tests.integration.spark.runner_process import Site
from tests.support import s3a
from tests.support.connector_jars import installed_jars
from tests.support.hdfs import Hdfs, an_hdfs
from tests.support.renewed import Renewed, renewed
from tests.support.s3a import Bucket, a_bucket


@contextmanager
def a_session() -> Iterator[SparkSession]:
    extra = {
        # a snapshot of the state every few batches, so that restores meet both kinds of files
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
        "spark.log.level": "ERROR",
    }
    with TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as temporary:
        os.environ[java_options.DIRECTORY] = os.environ["SPARK_LOCAL_DIRS"] = temporary
        session = open_session(
            settings(
                name="tests",
                master="local[2]",
                parallelism=2,
                extra=extra,
                jars=installed_jars(),
            ),
        )
        try:
            yield session
        finally:
            with suppress(Py4JError, OSError):  # its JVM may be what died
                close_session(session)


def answers(session: SparkSession) -> bool:
    """Whether the JVM is there, and runs Spark."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError):
        return False


@pytest.fixture(scope="session")
def sessions_in_turn() -> Iterator[Renewed[SparkSession]]:
    with renewed(a_session, answers, outlives_failures=True) as shared:
        yield shared


@pytest.fixture
def spark(
    sessions_in_turn: Renewed[SparkSession], request: pytest.FixtureRequest
) -> Iterator[SparkSession]:
    """One session for all tests; another where its JVM has died."""
    with sessions_in_turn.lent_to(request.node) as lent:
        yield lent


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


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    """One for all tests: each has a directory of its own."""
    with an_hdfs() as running:
        yield running


@pytest.fixture(scope="session")
def bucket() -> Iterator[Bucket]:
    if not s3a.is_wanted():
        pytest.skip(f"needs the client of S3 in the session: {s3a.VARIABLE}=1, as in make chaos")
    with a_bucket() as made:
        yield made
