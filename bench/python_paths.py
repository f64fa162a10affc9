"""Compares the speed of Python operators with SQL, as ratios within one run.

    python -m bench.python_paths [--rows 1000000] [--keys 5000 100000] [--batches 3]

Each job reads the same Parquet files, one for each batch, and its output is discarded. The first
batch is left out (it fills the state, and the JVM warms up); the others are summed up. The SQL job
is an aggregate, count, sum and maximum for each key, which is what the process function computes.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from bench.support import say, table
from jobmanager.core.graph import graph_document
from jobmanager.core.ids import VertexId
from taskrunner.api import Context, ProcessFunction, Row, ValueState
from taskrunner.spark.compile.compiler import Compiler
from taskrunner.spark.session.session import close_session, open_session, settings

SCHEMA = "k BIGINT, v BIGINT, ts TIMESTAMP"
OUTPUT = "k BIGINT, n BIGINT, total BIGINT, highest BIGINT"
MAX_PARALLELISM = 64
PARALLELISM = 2


class Running(ProcessFunction):
    """Count, sum and maximum, kept as one value; emits once in about ten rows of a key."""

    result: ValueState[tuple[int, int, int]] = ValueState()

    def process(self, row: Row, ctx: Context) -> None:
        value = row["v"]
        held = self.result.value()
        n, total, highest = held or (0, 0, value)
        n, total, highest = n + 1, total + value, max(value, highest)
        self.result.update((n, total, highest))
        if n % 10 == 0:
            ctx.emit({"k": ctx.key, "n": n, "total": total, "highest": highest})


def bigger(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"k": batch["k"], "v": pc.multiply(batch["v"], 2)})


def combined(one: Row, other: Row) -> Row:
    return {"k": one["k"], "v": one["v"] + other["v"], "ts": other["ts"]}


PATHS: dict[str, dict[str, Any]] = {
    "sql (aggregate)": {
        "op": "aggregate",
        "key": ["k"],
        "aggregate": {"n": "count(*)", "total": "sum(v)", "highest": "max(v)"},
    },
    "process": {
        "op": "process",
        "key": ["k"],
        "function": "bench.python_paths:Running",
        "output": OUTPUT,
    },
    "process, event time": {
        "op": "process",
        "key": ["k"],
        "function": "bench.python_paths:Running",
        "output": OUTPUT,
        "time": "event",
    },
    "reduce by a function": {
        "op": "reduce",
        "key": ["k"],
        "function": "bench.python_paths:combined",
    },
    "count window": {
        "op": "window",
        "key": ["k"],
        "window": {"count": 3},
        "aggregate": {"n": "count(*)", "total": "sum(v)", "highest": "max(v)"},
    },
    "sliding count window": {
        "op": "window",
        "key": ["k"],
        "window": {"count": 5, "every": 2},
        "aggregate": {"n": "count(*)", "total": "sum(v)", "highest": "max(v)"},
    },
    "sql (map)": {"op": "map", "select": {"k": "k", "v": "v * 2"}},
    "python": {
        "op": "python",
        "function": "bench.python_paths:bigger",
        "output": "k BIGINT, v BIGINT",
    },
}
COMPARED = {"python": "sql (map)"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[5_000, 100_000])
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--paths", nargs="+", default=list(PATHS))
    asked = parser.parse_args()
    spark = open_session(
        settings(name="bench", master="local[2]", parallelism=PARALLELISM, extra={})
    )
    try:
        with tempfile.TemporaryDirectory(prefix="hgbench") as name:
            table(
                ["path", "keys", "rows a batch", "seconds a batch", "of SQL"],
                list(_measured(spark, Path(name), asked)),
            )
    finally:
        close_session(spark)


def _measured(spark: SparkSession, place: Path, asked: Any) -> Iterator[list[object]]:
    for keys in asked.keys:
        source = place / f"{keys}"
        _write(source, asked.rows, keys, asked.batches + 1)
        took: dict[str, float] = {}
        for path in asked.paths:
            took[path] = _seconds(spark, source, place / f"{keys}-{path}", path)
            say(f"{path}, {keys} keys: {took[path]:.2f} s a batch")
            base = took.get(COMPARED.get(path, "sql (aggregate)"))
            ratio = f"{took[path] / base:.1f}" if base else ""
            yield [path, f"{keys:,}", f"{asked.rows:,}", f"{took[path]:.2f}", ratio]


def _write(source: Path, rows: int, keys: int, files: int) -> None:
    source.mkdir()
    for number in range(files):
        ids = pa.array(range(number * rows, (number + 1) * rows))
        columns = {
            # a stride that has no common divisor with the number of keys: every key in each file
            "k": pa.array([one * 7919 % keys for one in ids.to_pylist()]),
            "v": pa.array([one * 31 % 1009 for one in ids.to_pylist()]),
            "ts": pc.cast(pc.multiply(ids, 100), pa.timestamp("us", tz="UTC")),
        }
        file = source / f"{number:03d}.parquet"
        pyarrow.parquet.write_table(pa.table(columns), file)
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def _seconds(spark: SparkSession, source: Path, place: Path, path: str) -> float:
    """The mean of all batches but the first."""
    spent: list[float] = []
    began = time.perf_counter()

    def take(rows: DataFrame, batch: int) -> None:
        nonlocal began
        began = time.perf_counter()
        rows.write.format("noop").mode("overwrite").save()
        spent.append(time.perf_counter() - began)

    vertex = {"id": "it", "inputs": ["rows"], **PATHS[path]}
    graph = graph_document.parse(
        {
            "name": "bench",
            "parallelism": PARALLELISM,
            "max_parallelism": MAX_PARALLELISM,
            "vertices": [
                {
                    "id": "rows",
                    "op": "source",
                    "connector": "files",
                    "format": "parquet",
                    "path": str(source),
                    "schema": SCHEMA,
                    "watermark": {"column": "ts", "delay": "1s"},
                },
                vertex,
                {"id": "out", "op": "sink", "inputs": ["it"], "connector": "blackhole"},
            ],
        }
    )

    files = str(source)

    def read(source: Any, *, is_static: bool = False) -> DataFrame:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return stream.parquet(files).withWatermark("ts", "1 second")

    compiler = Compiler(graph, PARALLELISM, read)
    rows = compiler._frame(VertexId("out"))
    mode = "update" if vertex["op"] == "aggregate" else "append"
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    query = (
        rows.writeStream.outputMode(mode)
        .foreachBatch(take)
        .option("checkpointLocation", place.as_uri().replace(" ", "_"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(spent[1:]) / len(spent[1:])


if __name__ == "__main__":
    main()
