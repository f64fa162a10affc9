"""Spark's maintenance of state stores ends when a directory that nobody keeps is to go."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from taskrunner.inspector.scratch import scratch_in


def count_in(spark: SparkSession, directory: Path) -> None:
    """A query with state, which stays open in Spark when the query has ended."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    query = (
        rows.groupBy("value")
        .count()
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", directory.as_uri())
        .trigger(once=True)
        .start()
    )
    query.awaitTermination()


def test_nothing_is_written_to_a_directory_that_was_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm: Any = spark._jvm
    stores = getattr(jvm.org.apache.spark.sql.execution.streaming.state, "StateStore$")
    maintenance = getattr(stores, "MODULE$")

    with scratch_in(tmp_path, spark) as scratch:
        count_in(spark, scratch / "first")
        assert maintenance.isMaintenanceRunning()

    assert not maintenance.isMaintenanceRunning()
    assert list(tmp_path.iterdir()) == []
    # and Spark takes it up again with the next state
    with scratch_in(tmp_path, spark) as scratch:
        count_in(spark, scratch / "second")
        assert maintenance.isMaintenanceRunning()


def test_all_state_of_a_session_shares_one_bounded_memory(
    spark: SparkSession, tmp_path: Path
) -> None:
    state: Any = spark._jvm.org.apache.spark.sql.execution.streaming.state  # type: ignore[union-attr]
    memory = getattr(getattr(state, "RocksDBMemoryManager$"), "MODULE$")
    with_bound, without = memory.getNumRocksDBInstances(True), memory.getNumRocksDBInstances(False)

    with scratch_in(tmp_path, spark) as scratch:
        count_in(spark, scratch / "bounded")
        assert memory.getNumRocksDBInstances(True) > with_bound
        assert memory.getNumRocksDBInstances(False) == without
