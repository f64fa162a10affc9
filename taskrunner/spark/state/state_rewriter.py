"""Rewrites the state of a foreign checkpoint as RocksDB state that the commit log names.

Spark has a rewriter of state for its offline repartition: it reads the raw rows of every store
and writes them again, optionally to another directory. The rewriter accepts only RocksDB, but
its reader can read any state store. So the reader gets the settings that the state was really
written with.

All of this is private API: if it is missing, the adoption is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from taskrunner.core import spark_messages
from taskrunner.snapshots import foreign as foreign_checkpoints
from taskrunner.snapshots.foreign import ROCKSDB, Foreign, ForeignCheckpointRefused
from taskrunner.spark.session.hadoop_path import hadoop_path

_FORMAT_VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def rewrite(spark: SparkSession, foreign: Foreign, target: Path, partitions: int) -> None:
    """Makes `target` the checkpoint directory after the same batch.

    Raises `ForeignCheckpointRefused`.
    """
    try:
        settings = _store_settings(spark, foreign) if foreign.provider != ROCKSDB else None
        foreign_checkpoints.begin_rewrite(foreign, target, partitions)
        watermark_ms = foreign.watermark_ms
        foreign_checkpoints.pretend_ours(foreign)
        ids = _run(spark, foreign, target, _Transform(spark, partitions, settings))
    except (PySparkException, Py4JError, AttributeError, TypeError) as error:
        kind = foreign.provider.rpartition(".")[2]
        raise ForeignCheckpointRefused(
            f"Spark {spark.version} could not rewrite state of {kind}: "
            f"{spark_messages.telling(str(error))}"
        ) from error
    foreign_checkpoints.write_commit(target, foreign.batch, watermark_ms, ids)


def _store_settings(spark: SparkSession, foreign: Foreign) -> Any:
    """The settings of the state stores, as Spark's reader determines them for the original."""
    session = spark.newSession()
    if not foreign.has_state_ids:
        session.conf.set(_FORMAT_VERSION, "1")
    reader = session.read.format("statestore").option("operatorId", foreign.operators[0])
    rows = reader.option("batchId", foreign.batch).load(hadoop_path(foreign.directory))
    table = rows._jdf.queryExecution().analyzed().table()
    return _field(table, "stateConf").get(table)


def _run(
    spark: SparkSession, foreign: Foreign, target: Path, transform: "_Transform"
) -> Mapping[str, list[list[str]]]:
    """Runs the rewriter; returns the ids of the new state files: operator to partition to store."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    start_callbacks: Any = ensure_callback_server_started
    start_callbacks(spark.sparkContext._gateway)
    some = jvm.scala.Option.apply
    rewriter = jvm.org.apache.spark.sql.execution.streaming.state.StateRewriter(
        session,
        foreign.batch,
        foreign.batch,
        hadoop_path(target),
        session.sessionState().newHadoopConf(),
        some(hadoop_path(foreign.directory)),
        some(transform),
        some(None),
    )
    entries = rewriter.run().get().iterator()
    found: dict[str, list[list[str]]] = {}
    while entries.hasNext():
        entry = entries.next()
        found[str(entry._1())] = [[str(one) for one in stores] for stores in entry._2()]
    return found


class _Transform:
    """The Scala function that the rewriter applies to the rows between reading and writing."""

    def __init__(self, spark: SparkSession, partitions: int, settings: Any) -> None:
        self._jvm: Any = spark._jvm
        self._partitions = partitions
        self._settings = settings

    def apply(self, rows: Any) -> Any:
        if self._settings is not None:
            table = rows.queryExecution().analyzed().table()
            _field(table, "stateConf").set(table, self._settings)
        key = self._jvm.functions.col("partition_key")
        if rows.schema().apply("partition_key").dataType().length() == 0:
            return rows.coalesce(1)  # without a key all state is in one partition
        return rows.repartition(self._partitions, self._jvm.PythonUtils.toSeq([key]))

    def toString(self) -> str:  # noqa: N802 - as Java calls it
        return "spread over the partitions of the job"

    class Java:
        implements = ("scala.Function1",)


def _field(owner: Any, name: str) -> Any:
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field
