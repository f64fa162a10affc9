"""Avro records in the values of Kafka's records, by Spark's `from_avro` and `to_avro`."""

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.avro.functions import from_avro, to_avro

from jobmanager.core.graph.avro_schema import AvroRecord
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.core.kafka_failures import NULL_IN_AVRO

DECODED = "__headgate_ok"
"""A field beside those of the schema that is null if a value could not be decoded. Spark makes a
row of nulls of such a value, which could be a record of nulls as well.
"""


def read(body: Column, writer: str, reader: AvroRecord) -> Column:
    """The record in a value that was written with the schema `writer`, with the fields of `reader`
    and `DECODED`.
    """
    expected = reader.with_default(DECODED, "boolean", True)
    return from_avro(body, writer, {"mode": "PERMISSIVE", "avroSchema": expected})


def written(rows: DataFrame, columns: Sequence[str], schema: AvroRecord, vertex: str) -> Column:
    """The columns as a record of the schema. A null where the schema has none fails the query."""
    required = {one.name.lower() for one in schema.fields if not one.is_nullable}
    return to_avro(
        sql.struct(*(_field(rows, one, one.lower() in required, vertex) for one in columns)),
        schema.text,
    )


def check_columns(rows: DataFrame, columns: Sequence[str], schema: AvroRecord) -> None:
    """Refuses columns whose types are not those of the schema. Raises `VertexRefused`."""
    jvm: Any = rows.sparkSession._jvm
    record = rows.select(*(f"`{one}`" for one in columns)).schema
    kind = jvm.org.apache.spark.sql.types.DataType.fromJson(record.json())
    try:
        avro = jvm.org.apache.avro.Schema.Parser().parse(schema.text)
        jvm.org.apache.spark.sql.avro.AvroSerializer(kind, avro, False)
    except Py4JJavaError as error:
        raise VertexRefused(_reason(error.java_exception), "schema") from error


def _field(rows: DataFrame, name: str, is_required: bool, vertex: str) -> Column:
    column = sql.col(f"`{name}`")
    if is_required and rows.schema[name].nullable:
        failure = sql.raise_error(sql.lit(f"{NULL_IN_AVRO} {vertex} {name}"))
        return sql.coalesce(column, failure).alias(name)
    return column.alias(name)


def _reason(error: Any) -> str:
    told = [str(error.getMessage())]
    while (error := error.getCause()) is not None:
        told.append(str(error.getMessage()))
    return (
        f"the columns of the input are not as the Avro schema says: {'; '.join(told)}. Cast them "
        "in a map before the sink, or correct the schema"
    )
