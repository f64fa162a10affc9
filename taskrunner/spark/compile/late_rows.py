"""Results and late rows of a window, in one frame and apart again.

A stateful vertex runs once in a query, so what it gives on its sides comes out of it with its
results: in one more column, null for a result, and the side's rows in another, as structs.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.graph.inputs import Side
from taskrunner.keyed.windows.spec import SIDE

_ROW = "__headgate_row"


def columns_of(inputs: Sequence[Column]) -> list[Column]:
    """The side's columns, over the operator's output; `inputs` are those of a row as it came."""
    return [sql.col(SIDE), sql.when(sql.col(SIDE).isNotNull(), sql.struct(*inputs)).alias(_ROW)]


def kept(has_sides: bool) -> list[Column]:
    return [sql.col(SIDE), sql.col(_ROW)] if has_sides else []


def taken(frame: DataFrame, side: Side | None) -> DataFrame:
    """The rows of a side; of none, the results. A frame without sides has just results."""
    if SIDE not in frame.columns:
        return frame
    if side is None:
        return frame.where(sql.col(SIDE).isNull()).drop(SIDE, _ROW)
    return frame.where(sql.col(SIDE) == side.value).select(f"{_ROW}.*")
