"""The rows of a table: its files, and a comparison with the schema that the source names."""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.spark.session.hadoop_path import WITHOUT_PATTERNS


def read_files(
    spark: SparkSession, options: Mapping[str, str], schema: StructType, files: Sequence[str]
) -> DataFrame:
    """The rows of Parquet files. A column that a file does not have is NULL."""
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).options(**options, **WITHOUT_PATTERNS).parquet(*files)


def checked_schema(rows: DataFrame, schema: str | None) -> DataFrame:
    """The columns that the schema names, if the table has them; without a schema all columns.
    Raises `VertexRefused` with every difference.
    """
    if schema is None:
        return rows
    wanted = StructType.fromDDL(schema)
    assert isinstance(wanted, StructType)
    known = {one.name: one.dataType.simpleString() for one in rows.schema.fields}
    wrong = []
    for field in wanted.fields:
        kind = field.dataType.simpleString()
        if field.name not in known:
            wrong.append(f"column {field.name!r} is not in the table")
        elif known[field.name] != kind:
            wrong.append(f"column {field.name!r} is {known[field.name]} in the table, not {kind}")
    if wrong:
        raise VertexRefused("; ".join(wrong), "schema")
    return rows.select(*(f"`{one}`" for one in wanted.names))
