"""Runs a region's query for one batch that was prepared in its log, and discards the output."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.plan.job_plan import Region
from taskrunner.core import spark_messages
from taskrunner.spark.compile.compiler import Compiler
from taskrunner.spark.compile.models import SeenModels
from taskrunner.spark.compile.sources import Sources
from taskrunner.spark.connectors.reading import ReadContext
from taskrunner.spark.connectors.refreshes import Refreshes
from taskrunner.spark.run.job_paths import JobPaths
from taskrunner.spark.scripts.script_program import scripts_of
from taskrunner.spark.session.hadoop_path import hadoop_path
from taskrunner.spark.session.session import WITH_RESTRICTED_PATHS


def session_for(
    spark: SparkSession, graph: JobGraph, parallelism: int, *, restricts_paths: bool
) -> SparkSession:
    """A session with the settings of a job, in the same Spark."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", str(parallelism))
    for setting, value in graph.spark.items():
        if session.conf.isModifiable(setting):
            session.conf.set(setting, value)
    if restricts_paths:
        for setting, value in WITH_RESTRICTED_PATHS.items():
            session.conf.set(setting, value)
    return session


Rows = DataFrame
_SQL = "spark.sql"
_KEPT_FOR_LIFE = (
    f"{_SQL}.shuffle.partitions",
    f"{_SQL}.dropDuplicates.deterministicKeyOrder.enabled",
    f"{_SQL}.function.protobufExtensions.enabled",
    f"{_SQL}.optimizer.pruneFiltersCanPruneStreamingSubplan",
    f"{_SQL}.streaming.aggregation.stateFormatVersion",
    f"{_SQL}.streaming.flatMapGroupsWithState.stateFormatVersion",
    f"{_SQL}.streaming.join.stateFormatVersion",
    f"{_SQL}.streaming.multipleWatermarkPolicy",
    f"{_SQL}.streaming.queryEvolution.enableSourceEvolution",
    f"{_SQL}.streaming.statefulOperator.alwaysNullableOutput.enabled",
    f"{_SQL}.streaming.statefulOperator.useStrictDistribution",
    f"{_SQL}.streaming.stateStore.compression.codec",
    f"{_SQL}.streaming.stateStore.encodingFormat",
    f"{_SQL}.streaming.stateStore.providerClass",
    f"{_SQL}.streaming.stateStore.rocksdb.formatVersion",
    f"{_SQL}.streaming.stateStore.rocksdb.mergeOperatorVersion",
    f"{_SQL}.streaming.stateStore.rowChecksum.enabled",
)
"""Settings that a query stores at its first batch and keeps, whatever the session says later, in
Spark 4.3.
"""


def settings_for_life(session: SparkSession) -> dict[str, str]:
    """The settings that a query that starts in this session would keep."""
    found = {}
    for setting in _KEPT_FOR_LIFE:
        value = session.conf.get(setting, None)
        if value is not None:
            found[setting] = value
    return found


def rows_of(
    session: SparkSession, graph: JobGraph, parallelism: int, places: JobPaths, region: Region
) -> Rows:
    """The rows that the region's query would compute. Raises `InvalidVertex`."""
    return compiler_of(session, graph, parallelism, places).rows_of(region)


def compiler_of(
    session: SparkSession, graph: JobGraph, parallelism: int, places: JobPaths
) -> Compiler:
    sources = Sources(
        ReadContext(
            session,
            graph.mode,
            parallelism,
            places.resolve_input,
            places.layout,
            datetime.now(UTC),
            Refreshes(),
            is_trial=True,
        )
    )
    models = SeenModels(places.resolve)
    scripts = scripts_of(session, places)
    return Compiler(graph, parallelism, sources.read, script=scripts.rows, models=models)


def explained(rows: DataFrame) -> str:
    """Spark's physical plan, as text."""
    jvm: Any = rows.sparkSession._jvm
    plans = jvm.org.apache.spark.sql.api.python.PythonSQLUtils
    return str(plans.explainString(rows._jdf.queryExecution(), "simple")).strip()


def run_one_batch(region: Region, rows: DataFrame, directory: Path) -> None:
    """Runs the batch that is begun in `directory`. Raises Spark's error if it refuses."""
    query = (
        rows.writeStream.format("noop")
        .outputMode(region.output_mode)
        .option("checkpointLocation", hadoop_path(directory))
        .trigger(once=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


def refusal_of(region: Region, rows: DataFrame, directory: Path) -> str | None:
    """Spark's objection to that batch, in one line; None: there is none."""
    try:
        run_one_batch(region, rows, directory)
    except PySparkException as error:
        return spark_messages.telling(str(error))
    return None


def unload_state(spark: SparkSession) -> None:
    """Unloads all state stores: Spark keeps them open, and its maintenance threads write
    snapshots into their directories. Returns when those threads have ended; Spark starts them
    again with the next state store.

    A private API, so it may be missing; then the stores are left to Spark.
    """
    try:
        jvm: Any = spark._jvm
        stores = getattr(jvm.org.apache.spark.sql.execution.streaming.state, "StateStore$")
        getattr(stores, "MODULE$").stop()
    except (Py4JError, AttributeError, TypeError):
        return
