"""Sources and sinks that are classes of Spark's Python data source API."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from jobmanager.core.ids import VertexId
from taskrunner import functions
from taskrunner.spark.frames import refused


def register(spark: SparkSession, vertex: VertexId, reference: str, needs: str = "") -> str:
    """Makes the class known to Spark, under a name that is this vertex's alone."""
    try:
        found: Any = functions.load(reference)
    except Exception as error:
        raise refused(vertex, "class", str(error)) from error
    if not isinstance(found, type) or not issubclass(found, DataSource):
        raise refused(
            vertex, "class", f"{reference} is no subclass of pyspark.sql.datasource.DataSource"
        )
    if needs and getattr(found, needs) is getattr(DataSource, needs):
        raise refused(vertex, "class", f"{reference} has no {needs}, which every batch is given to")
    name = f"headgate_{vertex}"
    spark.dataSource.register(type(found.__name__, (found,), {"name": classmethod(lambda _: name)}))
    return name
