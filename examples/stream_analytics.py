"""Stream analytics: revenue per auction in sliding windows of event time.

headgate serve &
python examples/stream_analytics.py
"""

import os

from jobmanager.client.builder import DEFAULT_URL, Environment, sliding


def build(url: str = DEFAULT_URL) -> Environment:
    env = Environment("stream-analytics", parallelism=2, url=url)
    bids = env.source(
        "generator",
        id="bids",
        rows_per_second=200,
        columns={"auction": "id % 20", "price": "(id * 104729) % 1000 + 1", "ts": "ts"},
        watermark=("ts", "2s"),
    )
    (
        bids.filter("price > 100", id="big")
        .key_by("auction")
        .window(sliding("10s", every="5s"))
        .aggregate(id="revenue", bids="count(*)", revenue="sum(price)", top="max(price)")
        .sink("files", id="out", format="parquet", path="out/analytics")
    )
    return env


if __name__ == "__main__":
    job = build(os.environ.get("HEADGATE_URL", DEFAULT_URL)).submit()
    print(f"job {job.id}: headgate show {job.id}")
