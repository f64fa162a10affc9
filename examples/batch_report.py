"""Batch: the same operators over data that has an end, and a function of your own in PySpark.

headgate serve &
python examples/batch_report.py
"""

import os

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from jobmanager.client.builder import DEFAULT_URL, Environment


def best(spark: SparkSession, totals: DataFrame) -> DataFrame:
    """The three customers with the largest totals of each region."""
    order = Window.partitionBy("region").orderBy(sql.desc("total"), "customer")
    return totals.withColumn("rank", sql.row_number().over(order)).where("rank <= 3")


def build(url: str = DEFAULT_URL) -> Environment:
    env = Environment("batch-report", mode="batch", parallelism=2, url=url)
    orders = env.source(
        "generator",
        id="orders",
        rows_per_second=1000,
        rows=20_000,
        columns={"region": "id % 4", "customer": "id * 31 % 97", "amount": "id % 50 + 1"},
    )
    (
        orders.key_by("region", "customer")
        .aggregate(id="totals", total="sum(amount)")
        .spark(best, "region BIGINT, customer BIGINT, total BIGINT, rank INT", id="best")
        .sink("files", id="report", format="json", path="out/report")
    )
    return env


if __name__ == "__main__":
    job = build(os.environ.get("HEADGATE_URL", DEFAULT_URL)).submit()
    print(f"job {job.id}: {job.wait()}")
