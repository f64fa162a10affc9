"""A streaming query as anybody writes it, with Spark's defaults for state. Runs until killed."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql


def main(source: str, checkpoint: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .getOrCreate()
    )
    rows = (
        spark.readStream.format("json")
        .schema("k STRING, v BIGINT")
        .option("maxFilesPerTrigger", 1)
        .load(source)
    )
    sums = rows.groupBy("k").agg(sql.count("*").alias("n"), sql.sum("v").alias("total"))
    query = sums.writeStream.format("noop").outputMode("update")
    query.option("checkpointLocation", checkpoint).start().awaitTermination()


main(*sys.argv[1:])
