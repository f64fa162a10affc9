"""Streaming ETL: raw events are cleaned, bad ones set apart, both written exactly once.

headgate serve &
python examples/streaming_etl.py
"""

import os

from jobmanager.client.builder import DEFAULT_URL, Environment


def build(url: str = DEFAULT_URL) -> Environment:
    env = Environment("streaming-etl", checkpointing={"interval": "5s"}, url=url)
    raw = env.source(
        "generator",
        id="raw",
        rows_per_second=100,
        columns={
            "line": "concat(id, ';', if(id % 10 = 0, 'x', string(id % 500)), ';user-', id % 13)",
            "ts": "ts",
        },
    )
    parsed = raw.map(
        id="parsed",
        order="cast(split(line, ';')[0] AS BIGINT)",
        amount="try_cast(split(line, ';')[1] AS BIGINT)",
        customer="split(line, ';')[2]",
        line="line",
        day="to_date(ts)",
    )
    clean = parsed.filter("amount IS NOT NULL", id="clean").drop("line", id="orders")
    clean.sink("files", id="lake", format="parquet", path="out/orders", partition_by=["day"])
    bad = parsed.filter("amount IS NULL", id="bad").map(id="bad_lines", line="line")
    bad.sink("files", id="rejected", format="json", path="out/rejected")
    return env


if __name__ == "__main__":
    job = build(os.environ.get("HEADGATE_URL", DEFAULT_URL)).submit()
    print(f"job {job.id}: headgate show {job.id}")
