"""Spark calls a key-group operator once for a group and batch, and when its time has come."""

import json
import pickle
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from jobmanager.core.graph.clocks import Clock
from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.keyed.operator import GroupOperator, Moment, Outcome
from taskrunner.spark.compile.keyed_python import apply_by_group
from tests.integration.spark.fed_files import put_file
from tests.integration.spark.jobs import second

SCHEMA = "k STRING, v BIGINT, ts TIMESTAMP"
OUTPUT = (
    StructType()
    .add("what", StringType())
    .add("numbers", StringType())
    .add("watermark", LongType())
    .add("newest", TimestampType())
)
Numbers = list[int]


class Teller:
    """Tells of every call; asks to be called a second after its first row."""

    def take(self, state: bytes | None, rows: pd.DataFrame | None, moment: Moment) -> Outcome:
        seen, due = pickle.loads(state) if state else ([], None)
        calls: list[tuple[str, Numbers]] = []
        if rows is not None:
            numbers = [int(v) for v in rows["v"]]
            seen = seen + numbers
            due = due or int(rows["ts"].min().timestamp() * 1000) + 1000
            calls.append(("rows", numbers))
        if due is not None and due <= moment.watermark_ms:
            calls.append(("due", seen))
            due = None
        newest = None if rows is None else rows["ts"].iloc[-1]
        told = [(what, json.dumps(numbers), moment.watermark_ms, newest) for what, numbers in calls]
        kept = None if due is None else pickle.dumps((seen, due))
        return Outcome(pd.DataFrame(told, columns=OUTPUT.names), kept, due)


def teller() -> GroupOperator:
    return Teller()


def feed(directory: Path, batches: Sequence[Sequence[tuple[str | None, int, int]]]) -> None:
    for number, rows in enumerate(batches):
        put_file(
            directory, number, ({"k": k, "v": v, "ts": second(s).isoformat()} for k, v, s in rows)
        )


def run(spark: SparkSession, place: Path, key: Sequence[str], clock: Clock) -> list[list[Any]]:
    """What was told in each batch."""
    told: list[list[Any]] = []

    def take(rows: DataFrame, batch: int) -> None:
        told.append([(row["what"], json.loads(row["numbers"])) for row in rows.collect()])

    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    rows = stream.json(str(place / "in")).withWatermark("ts", "2 seconds")
    results = apply_by_group(rows, key, 12, teller, OUTPUT, clock, "ts")
    query = (
        results.writeStream.foreachBatch(take)
        .option("checkpointLocation", (place / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return told


BATCHES = [
    [("a", 1, 5), ("a", 2, 1), ("a", 3, 5)],
    [("a", 4, 30)],
    [("a", 5, 2), ("a", 6, 31)],
    [("a", 7, 50), ("a", 8, 90)],
]
"""Key, number, second. The watermark is two seconds behind: 3, 28, 29, 88."""


@pytest.mark.parametrize("key", [["k"], []], ids=["by key", "without a key"])
def test_a_group_is_called_with_its_rows_in_order_and_when_due(
    spark: SparkSession, tmp_path: Path, key: list[str]
) -> None:
    feed(tmp_path / "in", BATCHES)

    told = [calls for calls in run(spark, tmp_path, key, Clock.EVENT) if calls]

    # rows by time, then as they came; late rows too; a timer when the watermark is at it
    assert told == [
        [("rows", [2, 1, 3])],
        [("rows", [4]), ("due", [2, 1, 3, 4])],
        [("rows", [5, 6]), ("due", [5, 6])],
        [("rows", [7, 8])],
        [("due", [7, 8])],
    ]


def test_a_batch_job_gives_all_rows_and_then_the_end_of_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path / "in", BATCHES)
    rows = spark.read.schema(SCHEMA).json(str(tmp_path / "in"))

    found = apply_by_group(rows, ["k"], 12, teller, OUTPUT, Clock.EVENT, "ts").collect()

    assert [(row["what"], json.loads(row["numbers"])) for row in found] == [
        ("rows", [2, 5, 1, 3, 4, 6, 7, 8]),
        ("due", [2, 5, 1, 3, 4, 6, 7, 8]),
    ]
    assert found[1]["watermark"] == END_OF_TIME_MS
    assert found[0]["newest"].astimezone(UTC) == second(90)
    assert found[1]["newest"] is None
