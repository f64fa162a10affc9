"""`map`, `filter`, `flat_map` and `union` as DataFrames."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.graph.projection import Filter, FlatMap, Map, Union
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.compile.frames import naming, need_columns
from taskrunner.spark.session.column_names import column


def _map(vertex: Map, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    [rows] = inputs
    if vertex.select is not None:
        return rows.select(*(sql.expr(text).alias(name) for name, text in vertex.select.items()))
    # all at once: each expression sees the input columns
    added = rows.withColumns({name: sql.expr(text) for name, text in vertex.add.items()})
    missing = [name for name in vertex.drop if name not in added.columns]
    if missing:
        raise InvalidVertex(
            vertex.id, f"there is no column {', '.join(missing)}, only {added.columns}", "drop"
        )
    return added.drop(*vertex.drop)


def _filter(vertex: Filter, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    return inputs[0].where(vertex.where)


def _flat_map(vertex: FlatMap, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    [rows] = inputs
    kept = rows.columns if vertex.keep is None else vertex.keep
    clash = [name for name in vertex.names if name.lower() in {one.lower() for one in kept}]
    if clash:
        raise InvalidVertex(vertex.id, f"column {clash[0]!r} already exists", "as")
    need_columns(vertex.id, "keep", tuple(kept), rows)
    with naming(vertex.id, "explode"):
        exploded = sql.explode(sql.expr(vertex.explode)).alias(*vertex.names)
        return rows.select(*(column(name) for name in kept), exploded)


def _union(vertex: Union, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    rows, *others = inputs
    for other in others:
        rows = rows.unionByName(other)
    return rows


COMPILERS = (
    OperatorCompiler(Map, _map, lambda vertex: "add" if vertex.select is None else "select"),
    OperatorCompiler(Filter, _filter, lambda vertex: "where"),
    OperatorCompiler(FlatMap, _flat_map),
    OperatorCompiler(Union, _union, lambda vertex: "inputs"),
)
