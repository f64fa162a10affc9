"""`generator`: Spark's `rate` in a stream, a range of numbers in a batch."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.graph.connectors.generator import GeneratorSource
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.sources import Source
from taskrunner.spark.connectors.reading import ReadContext, SourceReader


def _read(source: Source, generator: GeneratorSource, context: ReadContext) -> DataFrame:
    is_stream = context.mode is Mode.STREAMING
    ids = _stream(generator, context) if is_stream else _range(generator, context)
    if generator.rows is not None:
        ids = ids.where(sql.col("id") < generator.rows)
    return ids.select(*(sql.expr(text).alias(name) for name, text in generator.columns.items()))


def _stream(generator: GeneratorSource, context: ReadContext) -> DataFrame:
    rate = (
        context.spark.readStream.format("rate")
        .option("rowsPerSecond", generator.rows_per_second)
        .option("numPartitions", context.parallelism)
        .load()
    )
    return rate.select(sql.col("value").alias("id"), sql.col("timestamp").alias("ts"))


def _range(generator: GeneratorSource, context: ReadContext) -> DataFrame:
    ids = context.spark.range(0, generator.rows or 0, 1, context.parallelism)
    micros = int(context.started_at.timestamp() * 1_000_000)
    offset = sql.floor(sql.col("id") * sql.lit(1_000_000) / sql.lit(generator.rows_per_second))
    return ids.withColumn("ts", sql.timestamp_micros(sql.lit(micros) + offset))


READERS = (SourceReader(GeneratorSource, _read),)
WRITERS = ()
