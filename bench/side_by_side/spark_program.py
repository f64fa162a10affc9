"""The hand-written PySpark: a process with one session that runs the lines it is told to.

    python -m bench.side_by_side.spark_program ours|defaults

It reads one JSON document a line, and answers with one: the seconds that the query took.
"""

import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

from bench.side_by_side.input_data import TABLES
from bench.side_by_side.lines import LINES, Line
from taskrunner.spark.session.priming import prime
from taskrunner.spark.session.session import close_session, open_session, settings

MASTER = "local[2]"
_PARALLELISM = 2


def main(kind: str) -> None:
    spark = _session(kind)
    _answer({"ready": True})
    lines = {one.name: one for one in LINES}
    for told in sys.stdin:
        order = json.loads(told)
        _answer({"seconds": _run(spark, lines[order["line"]], order)})
    close_session(spark)


def _session(kind: str) -> SparkSession:
    if kind == "ours":
        quiet = {"spark.log.level": "ERROR"}
        spark = open_session(
            settings(name="by hand", master=MASTER, parallelism=_PARALLELISM, extra=quiet)
        )
        prime(spark)  # as Headgate's warm runners
        return spark
    builder = SparkSession.builder.master(MASTER).config("spark.log.level", "ERROR")
    return builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()


def _run(spark: SparkSession, line: Line, order: dict[str, Any]) -> float:
    began = time.monotonic()
    tables = [_read(spark, name, order) for name in line.tables]
    writer = (
        line.pyspark(*tables)
        .writeStream.outputMode(line.output_mode)
        .option("checkpointLocation", order["checkpoint"])
        .trigger(availableNow=True)
    )
    if line.writes:
        writer = writer.format(order["format"]).option("path", order["output"])
    else:
        writer = writer.format("noop")
    query = writer.start()
    query.awaitTermination()
    return time.monotonic() - began


def _read(spark: SparkSession, name: str, order: dict[str, Any]) -> Any:
    table = TABLES[name]
    if order["servers"]:
        source = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", order["servers"])
            .option("subscribe", order["tables"][name])
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr(f"from_json(CAST(value AS STRING), '{table.schema()}') AS row")
        )
        rows = source.select("row.*")
    else:
        rows = (
            spark.readStream.format(order["format"])
            .schema(table.schema())
            .load(order["tables"][name])
        )
    return rows.withWatermark(table.time, "1 second")


def _answer(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
