"""Repartitions the state of a clone for another parallelism, before any query uses it.

Spark fixes the number of state partitions at a query's first batch, and has an offline
rewrite of all state for another number, as a new batch without input. Sinks never see that
batch.

This module adds what the rewrite does not do:

* An operator without a key has one partition, whatever the number (`Layout.SINGLE`). The
  rewrite moves its state to the partition of the empty key's hash, where no query reads it.
* State that was written in real-time mode names its aggregation as the rewrite does not know.
* A region without hashed state cannot be rewritten, and need not be; but its log also keeps
  Spark at the old number of shuffle partitions.
"""

from collections.abc import Sequence
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobmanager.core.plan.key_groups import Layout, subtasks
from taskrunner.snapshots import operator_names, spark_state
from taskrunner.snapshots.restore_source import RestoreRefused
from taskrunner.snapshots.rewritable_state import rewrite_obstacle
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.spark.session.hadoop_path import hadoop_path


class RepartitionFailed(Exception):
    """Spark did not rewrite the state, or not as the plan says."""


def repartition(
    spark: SparkSession, directory: Path, layouts: Sequence[Layout], parallelism: int
) -> int | None:
    """Rewrites the state in `directory`, whose last batch is committed, for `parallelism`.

    `layouts` are the layouts of its stateful operators. Returns the number of the batch that holds
    the rewritten state; None: there was nothing to rewrite. Raises `RestoreRefused` or
    `RepartitionFailed`.
    """
    log = SparkLog(directory)
    if not {Layout.HASHED, Layout.GROUPED} & set(layouts):
        log.set_shuffle_partitions(parallelism)
        return None
    _check_formats(log)
    operator_names.use_names_of_batches(directory)
    _rewrite(spark, directory, parallelism)
    batch = log.last_committed()
    assert batch is not None
    for operator, layout in enumerate(layouts):
        if layout is Layout.SINGLE:
            spark_state.gather(directory, batch, operator)
    _check(directory, batch, layouts, parallelism)
    return batch


def _check_formats(log: SparkLog) -> None:
    last = log.last_committed()
    settings = {} if last is None else log.offsets(last).metadata.get("conf", {})
    if obstacle := rewrite_obstacle(log.directory, settings):
        raise RestoreRefused(f"{log.directory} cannot have another parallelism: {obstacle}")


def _rewrite(spark: SparkSession, directory: Path, parallelism: int) -> None:
    """Calls Spark's offline rewrite: a private API, so it may be missing."""
    try:
        rewrite = spark._streamingCheckpointManager.repartition
    except (AttributeError, Py4JError) as error:
        raise RestoreRefused(
            f"Spark {spark.version} cannot rewrite state for parallelism {parallelism}: start the "
            "job with the parallelism that its restore point was written with"
        ) from error
    try:
        rewrite(hadoop_path(directory), parallelism)
    except (PySparkException, Py4JError) as error:
        raise RepartitionFailed(
            f"Spark could not rewrite the state for parallelism {parallelism}"
        ) from error


def _check(directory: Path, batch: int, layouts: Sequence[Layout], parallelism: int) -> None:
    found = [(one.operator, one.partition) for one in spark_state.state_of(directory, batch)]
    wanted = [
        (operator, partition)
        for operator, layout in enumerate(layouts)
        for partition in range(subtasks(layout, parallelism))
    ]
    if found != wanted:
        raise RepartitionFailed(
            f"after the rewrite for parallelism {parallelism} Spark has state partitions "
            f"{found} instead of {wanted}"
        )
