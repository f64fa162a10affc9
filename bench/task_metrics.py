"""What it costs to read Spark's task metrics: CPU milliseconds for each batch.

    python -m bench.task_metrics [PARTITIONS …]

For each number of partitions a streaming aggregation runs for some batches. Then the query is
stopped, and the metrics of its batches are read again and again with nothing else running: the CPU
time of this thread, and of the JVM, divided by the number of batches.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from taskrunner.spark.run.task_metrics import TaskMetricsReader
from taskrunner.spark.session.session import close_session, open_session, settings

BATCHES = 12
ROUNDS = 10


def measure(partitions: int) -> str:
    chosen = settings(
        name="bench", master="local[2]", parallelism=partitions, extra={"spark.log.level": "ERROR"}
    )
    spark = open_session(chosen)
    try:
        _run_batches(spark)
        jvm = _jvm()
        _read(spark)  # the JVM's first time does not count
        before, began = _cpu(jvm), time.thread_time()
        jobs = sum(_read(spark) for _ in range(ROUNDS))
        mine, its = time.thread_time() - began, _cpu(jvm) - before
        return (
            f"{partitions:>3} partitions: {1000 * mine / jobs:6.2f} ms of Python and "
            f"{1000 * its / jobs:6.2f} ms of the JVM for each batch"
        )
    finally:
        close_session(spark)


def _run_batches(spark: SparkSession) -> None:
    done: list[int] = []

    def take(rows: DataFrame, batch: int) -> None:
        rows.write.format("noop").mode("overwrite").save()
        done.append(batch)

    rows = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    counted = rows.groupBy((sql.col("value") % 1000).alias("k")).count()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        query = (
            counted.writeStream.outputMode("update")
            .option("checkpointLocation", Path(directory).as_uri())
            .foreachBatch(take)
            .start()
        )
        while len(done) < BATCHES:
            time.sleep(0.1)
        query.stop()


def _read(spark: SparkSession) -> int:
    """Read all jobs that Spark knows, as if they were new; return how many have ended."""
    reader = TaskMetricsReader(spark)
    reader.begin()
    reader._next_job = 0
    reader._read()
    return sum(len(one.ended) for one in reader._runs.values())


def _jvm() -> psutil.Process:
    return next(one for one in psutil.Process().children(recursive=True) if one.name() == "java")


def _cpu(process: psutil.Process) -> float:
    spent: Any = process.cpu_times()
    return float(spent.user + spent.system)


if __name__ == "__main__":
    for number in [int(one) for one in sys.argv[1:]] or [2, 32]:
        sys.stdout.write(measure(number) + "\n")
        sys.stdout.flush()
