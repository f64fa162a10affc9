"""Primes a session, so that the first batch of a job is not slow.

A JVM is slow when it does something for the first time: it loads classes and compiles. So a
small streaming query uses the same parts of Spark as a job: RocksDB state, the offset and commit
logs, `foreachBatch` back into Python, Parquet, and a Python worker.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from taskrunner.spark.session.hadoop_path import hadoop_path

_BATCHES = 3
_ROWS = 200


def prime(spark: SparkSession) -> None:
    """Primes the session; leaves nothing behind but a warm JVM and a Python worker."""
    with TemporaryDirectory(prefix="priming") as name:
        directory = Path(name)
        _write_input(directory / "in")
        _run_query(spark, directory)
    spark.range(10).mapInArrow(_unchanged, "id BIGINT").collect()


def _write_input(directory: Path) -> None:
    directory.mkdir()
    for number in range(_BATCHES):
        lines = (
            f'{{"k": {n % 7}, "v": {n}, "ts": "2026-01-01T00:00:{number * 20 + n % 20:02d}Z"}}\n'
            for n in range(_ROWS)
        )
        (directory / f"{number}.json").write_text("".join(lines))


def _run_query(spark: SparkSession, directory: Path) -> None:
    rows = (
        spark.readStream.format("json")
        .schema("k BIGINT, v BIGINT, ts TIMESTAMP")
        .option("maxFilesPerTrigger", 1)
        .load(hadoop_path(directory / "in"))
        .withWatermark("ts", "1 second")
    )
    window = sql.window("ts", "10 seconds")
    sums = rows.where("v > 1").groupBy(window, "k").agg(sql.count("*"), sql.sum("v"), sql.max("v"))

    def write(batch: DataFrame, number: int) -> None:
        renamed = batch.toDF("w", "k", "n", "total", "top").select("k", "w.start", "n", "total")
        renamed.write.mode("overwrite").parquet(hadoop_path(directory / "out" / str(number)))

    query = (
        sums.writeStream.outputMode("append")
        .option("checkpointLocation", hadoop_path(directory / "checkpoint"))
        .foreachBatch(write)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
