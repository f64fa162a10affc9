"""Columns by name, whatever characters a name has."""

from pyspark.sql import Column
from pyspark.sql import functions as sql


def quoted(name: str) -> str:
    """The name as Spark's expressions take it."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """The column with exactly that name."""
    return sql.col(quoted(name))
