"""Delta and Iceberg tables as sinks and batch sources; the libraries' own readers are the judge."""

from contextlib import closing
from typing import Any

import deltalake
import pytest

from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.sinks.iceberg_table import open_catalog
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink, some_rows, table


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


def test_rows_that_do_not_fit_a_delta_table_are_refused_with_every_difference(
    job: JobUnderTest,
) -> None:
    sink = of(delta_sink("wide", partition_by=["day"]), "format")
    fields = [deltalake.Field("id", "string"), deltalake.Field("day", "date")]
    deltalake.DeltaTable.create(job.root / "all orders", deltalake.Schema(fields))
    job.define(of(table(some_rows(1)), "watermark"), wide(), sink)

    with pytest.raises(InvalidVertex) as refused:
        job.start()

    told = str(refused.value)
    assert "column 'id' is bigint in the job and string in the table" in told
    assert all(f"column '{one}'" in told for one in ("k", "v", "ts", "xs", "small"))
    assert "partition_by is day, and the table is not partitioned" in told


def test_an_iceberg_table_is_written_and_read_at_a_snapshot(job: JobUnderTest) -> None:
    catalog = {"uri": f"sqlite:///{job.root}/catalog.db", "warehouse": "ware house"}
    place = {"connector": "iceberg", "table": "shop.orders", "catalog": catalog}
    sink = of(files_sink("wide"), "format", "path") | place | {"partition_by": ["day"]}
    job.define(of(table(some_rows(30)), "watermark"), wide(), sink, mode="batch").run()
    with closing(open_catalog(catalog)) as opened:
        written = opened.load_table("shop.orders")
    again = job.successor()
    again.run()

    reader = job.successor()
    first = written.metadata.current_snapshot_id
    orders = {"id": "orders", "op": "source", **place, "snapshot": first}
    now = {**orders, "id": "now", "schema": "id BIGINT"}
    count = {"op": "aggregate", "key": [], "aggregate": {"n": "count(*)", "ids": "sum(id)"}}
    reader.define(
        orders,
        of(now, "snapshot"),
        {**count, "id": "then", "inputs": ["orders"]},
        {**count, "id": "all", "inputs": ["now"]},
        {"id": "both", "op": "union", "inputs": ["then", "all"]},
        files_sink("both"),
        mode="batch",
    ).run()

    found = sorted((row["n"], row["ids"]) for row in reader.output())
    assert found == [(30, sum(range(30))), (60, 2 * sum(range(30)))]
    scanned = sorted(written.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], str(row["day"]), row["xs"][1]) for row in scanned[:3]] == [
        (0, "2026-01-01", "a b"),
        (1, "2026-01-02", "a b"),
        (2, "None", "a b"),
    ]
