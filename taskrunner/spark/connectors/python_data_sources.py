"""Sources and sinks that are classes of Spark's Python data source API."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from jobmanager.core.ids import VertexId
from taskrunner import functions
from taskrunner.core.invalid_vertex import InvalidVertex


def register(spark: SparkSession, vertex: VertexId, reference: str, needs: str = "") -> str:
    """Registers the class with Spark, under a name of this vertex only."""
    try:
        found: Any = functions.load(reference)
    except Exception as error:
        raise InvalidVertex(vertex, str(error), "class") from error
    if not isinstance(found, type) or not issubclass(found, DataSource):
        raise InvalidVertex(
            vertex, f"{reference} is no subclass of pyspark.sql.datasource.DataSource", "class"
        )
    if needs and getattr(found, needs) is getattr(DataSource, needs):
        raise InvalidVertex(
            vertex, f"{reference} has no {needs}, which every batch is given to", "class"
        )
    name = f"headgate_{vertex}"
    spark.dataSource.register(type(found.__name__, (found,), {"name": classmethod(lambda _: name)}))
    return name
