"""The role that a job graph needs: `operator` for built-in operators, `developer` for code.

Code is everything that would run with the rights of the runner: artifacts, scripts, Python
functions and classes, `spark` vertices; and what makes Spark run code in less obvious ways:
settings that name jars, classes or JVM options, and SQL that calls Java methods, starts a program
or is no query. The rules list what is harmless: an operator, connector or setting that is not
listed needs a developer.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jobmanager.core.access.roles import Role
from jobmanager.core.errors import RoleTooSmall
from jobmanager.core.graph.function_references import references
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.ml import Ml
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.graph.sql_queries import Sql
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.secret_references import names_in

BUILT_IN = frozenset(
    """
    source map filter flat_map union aggregate distinct reduce window join sql iterate
    delta_iterate graph ml sink
    """.split()  # noqa: SIM905
)
"""Operators that contain no code unless they name a function."""
_QUERY = re.compile(r"[\s(]*(select|with|from|values)\b", re.IGNORECASE)
_DANGEROUS_SQL = (
    # Spark accepts spaces and comments before the parenthesis, and quotes around the name.
    (
        re.compile(r"\b(reflect|try_reflect|java_method)\b`?\s*(\(|--|/\*)", re.IGNORECASE),
        "calls a method of Java",
    ),
    (
        re.compile(r"\bidentifier\b`?\s*(\(|--|/\*)", re.IGNORECASE),
        "computes the name of what it calls (IDENTIFIER)",
    ),
    (re.compile(r"\$\{"), "has a variable that Spark substitutes (${...})"),
)
_DANGEROUS_QUERY = (
    # Only JOIN … USING (columns) is harmless.
    (re.compile(r"\busing\b(?!\s*\()", re.IGNORECASE), "names a program or a class (USING)"),
    (re.compile(r"\binsert\b", re.IGNORECASE), "writes (INSERT)"),
)
_HARMLESS_SETTINGS = re.compile(
    r"""spark\.(
        default\.parallelism | cores\.max | task\.cpus | task\.maxFailures | locality\.wait
      | (driver|executor)\.(memory|memoryOverhead|cores) | executor\.instances
      | memory\.(fraction|storageFraction) | speculation(\.\w+)? | dynamicAllocation\.\w+
      | sql\.(
            adaptive\.[\w.]+ | ansi\.[\w.]+ | autoBroadcastJoinThreshold | broadcastTimeout
          | caseSensitive | crossJoin\.enabled | session\.timeZone | legacy\.timeParserPolicy
          | files\.(maxPartitionBytes|openCostInBytes|minPartitionNum|maxPartitionNum
                   |maxRecordsPerFile|ignoreCorruptFiles|ignoreMissingFiles)
          | parquet\.(compression\.codec|mergeSchema|filterPushdown)
          | join\.preferSortMergeJoin | inMemoryColumnarStorage\.(compressed|batchSize)
          | streaming\.(noDataMicroBatches\.enabled|multipleWatermarkPolicy|numRecentProgressUpdates
                       |schemaInference|fileSource\.[\w.]+|statefulOperator\.[\w.]+)
        )
    )""",
    re.VERBOSE | re.ASCII,
)
_HARMLESS_VALUE = re.compile(r"[\w.:/+-]*", re.ASCII)


def role_of_graph(document: Mapping[str, Any], graph: JobGraph | None) -> tuple[Role, str]:
    """Return the role that running the graph needs, and the reason. `graph` is None if the document
    has faults: then the job cannot run, and only the artifacts matter, which are read before that.
    """
    code = next(_code_in(document, graph), None)
    if code is None:
        return Role.OPERATOR, "the graph is made of built-in operators"
    return Role.DEVELOPER, code


def check_role_for_graph(
    role: Role, name: str, document: Mapping[str, Any], graph: JobGraph | None
) -> None:
    """Raise `RoleTooSmall` if the role is not enough to run the graph. `name` is the token's."""
    needed, why = role_of_graph(document, graph)
    if not role.covers(needed):
        raise RoleTooSmall(
            f"{why}, and running code needs the role {needed}: the token {name!r} has the role "
            f"{role}; use a token with the role {needed}, or a graph of built-in operators only"
        )


def _code_in(document: Mapping[str, Any], graph: JobGraph | None) -> Iterator[str]:
    if document.get("artifacts"):
        yield "the graph names artifacts"
    if graph is None:
        return
    for one in references(graph):
        yield f"vertex {one.vertex!r} runs the {one.field} {one.module}:{one.name}"
    for vertex in graph.every_vertex():
        yield from _code_of(vertex)
    for setting, value in graph.spark.items():
        if not _HARMLESS_SETTINGS.fullmatch(setting) or not _HARMLESS_VALUE.fullmatch(value):
            yield f"the setting {setting} can make Spark run code"
    for where, text in _texts(document.get("vertices"), "vertices"):
        if names := names_in(text):
            yield f"the text of {where} uses the secret {names[0]!r}, which the job could give away"
        for pattern, what in _DANGEROUS_SQL:
            if pattern.search(text):
                yield f"the text of {where} {what}"


def _code_of(vertex: Vertex) -> Iterator[str]:
    if vertex.op not in BUILT_IN:
        yield f"vertex {vertex.id!r} is a {vertex.op}, which runs code"
    if isinstance(vertex, Source | Sink) and (why := vertex.connector.code_in(vertex.options)):
        yield f"vertex {vertex.id!r} {why}"
    if isinstance(vertex, Ml) and vertex.model is not None:
        yield f"vertex {vertex.id!r} applies a saved model, and the files of a model can name code"
    if isinstance(vertex, Sql):
        if not _QUERY.match(vertex.query):
            yield (
                f"the query of {vertex.id!r} does not begin with SELECT, WITH, FROM or VALUES, so "
                "it may be any statement"
            )
        for pattern, what in _DANGEROUS_QUERY:
            if pattern.search(vertex.query):
                yield f"the query of {vertex.id!r} {what}"


def _texts(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Yield every text in a part of the document, including keys, and the vertex it belongs to."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        named = value.get("id")
        inside = repr(named) if isinstance(named, str) else where
        for key, held in value.items():
            yield inside, str(key)
            yield from _texts(held, inside)
    elif isinstance(value, list):
        for held in value:
            yield from _texts(held, where)
