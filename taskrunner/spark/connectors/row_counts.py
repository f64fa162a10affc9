"""Counts the rows of a batch while they are written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sql

from taskrunner.core.staged_rows import BatchCount

_PARTITION = "__headgate_partition"


def counting(rows: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """The same rows, counted while they are written; call the returned function afterwards."""
    observation = Observation(f"rows-{uuid4().hex}")
    observed = rows.observe(observation, sql.count(sql.lit(1)).alias("rows"))
    return observed, lambda: int(observation.get["rows"])


def counted(rows: DataFrame, *, by_partition: bool) -> tuple[DataFrame, Callable[[], BatchCount]]:
    """As `counting`, and on request also the partitions that had rows: Spark puts the partition's
    number into the names of the files.
    """
    if not by_partition:
        observed, count_of = counting(rows)
        return observed, lambda: BatchCount(count_of())
    observation = Observation(f"rows-{uuid4().hex}")
    numbered = rows.withColumn(_PARTITION, sql.spark_partition_id())
    observed = numbered.observe(
        observation,
        sql.count(sql.lit(1)).alias("rows"),
        sql.collect_set(_PARTITION).alias("partitions"),
    ).drop(_PARTITION)

    def count() -> BatchCount:
        found = observation.get
        return BatchCount(int(found["rows"]), frozenset(map(int, found["partitions"])))

    return observed, count


@contextmanager
def counted_before(rows: DataFrame) -> Iterator[tuple[DataFrame, int]]:
    """The same rows, kept by Spark for as long as they are written, and their number.

    For writers that compute the rows in a query of their own, such as Kafka's: an observation of
    the rows would be awaited for ever.
    """
    kept = rows.persist()
    try:
        yield kept, kept.count()
    finally:
        kept.unpersist()


def discard(rows: DataFrame) -> int:
    """Computes the rows, and keeps only their number."""
    data_set = _data_set(rows)
    if data_set is not None:
        return int(data_set.count())
    observed, count_of = counting(rows)
    observed.write.format("noop").mode("overwrite").save()
    return count_of()


def _data_set(rows: DataFrame) -> Any:
    """The data set that Spark has made of the rows of a batch, if nothing was done to them since; a
    query over it would copy each row. None: there is none, or this Spark has another API.
    """
    try:
        plan: Any = rows._jdf.queryExecution().analyzed()
        return plan.rdd() if plan.getClass().getSimpleName() == "LogicalRDD" else None
    except (Py4JError, AttributeError, TypeError):
        return None
