"""The operators of the job-graph language: each name, with the module that defines it.

Each module in this list defines one family of operators: dataclasses, readers, checks and what the
plan needs to know, in one file. `docs/adding-an-operator.md` walks through a new one.
"""

from collections.abc import Mapping

from jobmanager.core.graph import (
    aggregates,
    graph_algorithms,
    iterations,
    joins,
    ml,
    process_functions,
    projection,
    pyspark_functions,
    scripts,
    sinks,
    sources,
    sql_queries,
    windows,
)
from jobmanager.core.graph.operator_entry import Operator

FAMILIES = (
    sources,
    projection,
    aggregates,
    windows,
    joins,
    sql_queries,
    process_functions,
    pyspark_functions,
    scripts,
    iterations,
    graph_algorithms,
    ml,
    sinks,
)
OPERATORS: Mapping[str, Operator] = {
    operator.name: operator for family in FAMILIES for operator in family.OPERATORS
}
