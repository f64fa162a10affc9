"""Delta and Iceberg tables as sinks and batch sources; the libraries' own readers are the judge."""

from typing import Any

import deltalake

from tests.integration.spark.jobs import JobUnderTest, Row, files_sink, some_rows, table

SCHEMA = "id BIGINT, k STRING, v BIGINT, ts TIMESTAMP, day DATE, xs ARRAY<STRING>"


def delta_sink(after: str = "rows", **fields: Any) -> Row:
    return files_sink(after) | {"connector": "delta", "path": "all orders"} | fields


def of(document: Row, *without: str) -> Row:
    return {key: value for key, value in document.items() if key not in without}


def delta_rows(job: JobUnderTest, path: str = "all orders") -> list[Row]:
    found = deltalake.DeltaTable(job.root / path).to_pyarrow_table()
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def wide(after: str = "rows") -> Row:
    """Rows of all types that matter, in two days and one that is unknown."""
    day = "if(id % 3 = 2, NULL, date_add(DATE'2026-01-01', int(id % 3)))"
    return {
        "id": "wide",
        "op": "map",
        "inputs": [after],
        "add": {"day": day, "xs": "array(k, 'a b')", "small": "int(v)"},
    }


def test_a_stream_appends_to_a_partitioned_delta_table_and_a_batch_reads_it(
    job: JobUnderTest,
) -> None:
    rows = some_rows(30)
    sink = of(delta_sink("wide", partition_by=["day"]), "format")
    job.define(of(table(rows), "watermark"), wide(), sink).run()

    found = delta_rows(job)
    assert [(row["id"], row["k"], row["v"]) for row in found] == [
        (row["id"], row["k"], row["v"]) for row in rows
    ]
    assert [row["ts"].isoformat() for row in found] == [row["ts"] for row in rows]
    assert {str(row["day"]) for row in found} == {"2026-01-01", "2026-01-02", "None"}
    assert found[1]["xs"] == [found[1]["k"], "a b"]

    reader = job.successor()
    source = {"id": "orders", "op": "source", "connector": "delta", "path": "all orders"}
    by_day = {
        "id": "by_day",
        "op": "aggregate",
        "inputs": ["orders"],
        "key": ["day"],
        "aggregate": {"n": "count(*)", "last": "max(ts)"},
    }
    reader.define(source, by_day, files_sink("by_day"), mode="batch").run()
    counted = sorted((str(row["day"]), row["n"]) for row in reader.output())
    assert counted == [("2026-01-01", 10), ("2026-01-02", 10), ("None", 10)]
