"""Prints, for each key in a Spark checkpoint's state, its key group and its partition.

A process of its own: the comparison must not share a session with what it checks.
"""

import sys

from pyspark.sql import SparkSession


def main(directory: str, batch: str, key_groups: str) -> None:
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.streaming.stateStore.providerClass", rocksdb)
        .config("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    state = spark.read.format("statestore").option("batchId", batch).load(directory)
    keys = ", ".join(f"key.`{field.name}`" for field in state.schema["key"].dataType.fields)  # type: ignore[attr-defined]
    rows = state.selectExpr(f"pmod(hash({keys}), {key_groups})", "partition_id").collect()
    sys.stdout.write("".join(f"{group} {partition}\n" for group, partition in rows))
    spark.stop()


main(*sys.argv[1:])
