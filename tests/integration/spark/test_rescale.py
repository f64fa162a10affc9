"""Rescale on real Spark."""

from pyspark.sql import SparkSession

from tests.integration.spark.fed_files import (
    SUMS,
    check_updates_are_seen_once,
    feed,
    files_source,
    sums_after,
    sums_seen,
    wait_until_read,
)
from tests.integration.spark.jobs import JobUnderTest, files_sink


def rescaled(job: JobUnderTest, parallelism: int) -> None:
    """Stops the attempt with a savepoint and goes on from it at another parallelism."""
    job.stop_at_boundary()
    savepoint = job.savepoint(f"at-{job.attempt}")
    vertices = job.document["vertices"]
    job.define(*vertices, parallelism=parallelism)
    job.start(savepoint=savepoint, base_attempt=job.attempt + 1)


def test_sums(job: JobUnderTest, spark: SparkSession) -> None:
    feed(job, 0, 1)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 2)
    for files, parallelism in ((4, 4), (6, 1), (8, 3)):
        rescaled(job, parallelism)
        assert job.running is not None
        feed(job, files - 2, files - 1)
        wait_until_read(job, files)
        assert sums_seen(job) == sums_after(files)
        check_updates_are_seen_once(job)
        state = spark.read.format("statestore").load(job.spark_dir().as_uri())
        found = state.selectExpr("partition_id", "pmod(hash(key.k), 12) AS key_group").collect()
        assert len(found) == len(sums_after(files))
        for row in found:
            assert row["partition_id"] == row["key_group"] % parallelism
