"""Combines results and late rows of a window in one frame, and separates them again. A source that
cannot decode a record combines both in the same way.

A stateful vertex runs once in a query, so the rows of its sides come out together with its results:
one column names the side, null for a result, and another holds the side's rows as structs.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.graph.inputs import Side
from taskrunner.keyed.windows.spec import SIDE, SIDE_ROW


def columns_of(inputs: Sequence[Column]) -> list[Column]:
    """The side's columns, over the operator's output; `inputs` are the columns of an input row."""
    return [sql.col(SIDE), sql.when(sql.col(SIDE).isNotNull(), sql.struct(*inputs)).alias(SIDE_ROW)]


def kept(has_sides: bool) -> list[Column]:
    return [sql.col(SIDE), sql.col(SIDE_ROW)] if has_sides else []


def taken(frame: DataFrame, side: Side | None) -> DataFrame:
    """The rows of a side, or the results if no side is given or the frame has no sides."""
    if SIDE not in frame.columns:
        return frame
    if side is None:
        return frame.where(sql.col(SIDE).isNull()).drop(SIDE, SIDE_ROW)
    return frame.where(sql.col(SIDE) == side.value).select(f"{SIDE_ROW}.*")
