"""Sessions of one JVM: none sees what another has defined, and each has its own pool."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from taskrunner.spark.session.session import settings
from taskrunner.spark.session.shared_spark import SessionInShared, SettingsDiffer, SharedSpark

SHUFFLES = "spark.sql.shuffle.partitions"


@pytest.fixture
def shared(spark: SparkSession) -> Iterator[SharedSpark]:
    """The JVM of all tests, as that of a shared process."""
    made = SharedSpark("1g")
    made.whole._spark = spark
    made._chosen = chosen(parallelism=2)
    yield made
    runtime: Any = spark._jvm
    java_session = runtime.org.apache.spark.sql.classic.SparkSession
    java_session.setActiveSession(spark._jsparkSession)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]


def is_active(query: StreamingQuery) -> bool:
    return bool(query.isActive)


def chosen(parallelism: int, **extra: str) -> dict[str, str]:
    return settings(name="one", master="local[2]", parallelism=parallelism, extra=extra)


def test_each_runner_has_its_own_settings_views_and_queries(shared: SharedSpark) -> None:
    one, other = SessionInShared(shared, "slot-0"), SessionInShared(shared, "slot-1")
    first = one.open(chosen(3, **{"spark.sql.ansi.enabled": "false"}))
    second = other.open(chosen(4))

    first.range(3).createOrReplaceTempView("rows_of_one")
    query = first.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        assert (first.conf.get(SHUFFLES), second.conf.get(SHUFFLES)) == ("3", "4")
        assert first.sql("SELECT CAST('x' AS INT)").collect()[0][0] is None
        with pytest.raises(AnalysisException, match="rows_of_one"):
            second.table("rows_of_one")
        assert not second.streams.active
    finally:
        other.close()  # ends only its own
        assert is_active(query)
        one.close()

    assert not is_active(query)
    assert shared.whole.spark is not None
    assert shared.whole.spark.range(3).count() == 3, "Spark goes on"


def test_the_spark_jobs_of_a_runner_are_in_its_pool(shared: SharedSpark) -> None:
    spark = SessionInShared(shared, "slot-7").open(chosen(2))

    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") == "slot-7"
    assert spark.range(3).count() == 3


def test_the_next_attempt_of_a_kept_runner_has_other_settings(shared: SharedSpark) -> None:
    session = SessionInShared(shared, "slot-0")
    first = session.open(chosen(2, **{"spark.sql.ansi.enabled": "false"}))

    again = session.open(chosen(4))

    assert again is first
    assert again.conf.get(SHUFFLES) == "4"
    assert again.sql("SELECT 1").count() == 1
    assert again.conf.get("spark.sql.ansi.enabled") == "true"


def test_a_setting_of_the_jvm_cannot_be_a_jobs_own(shared: SharedSpark) -> None:
    session = SessionInShared(shared, "slot-0")

    with pytest.raises(SettingsDiffer, match=r"spark\.executor\.heartbeatInterval: .*runner: own"):
        session.open(chosen(2, **{"spark.executor.heartbeatInterval": "11s"}))


def test_the_heap_and_the_bound_of_rocksdb_are_those_of_the_process(shared: SharedSpark) -> None:
    memory = "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB"
    spark = SessionInShared(shared, "slot-0").open(chosen(2))

    assert shared.whole.spark is not None
    assert spark.conf.get(memory) == shared.whole.spark.conf.get(memory)
