"""The role that a job graph needs: `operator` for built-in operators, `developer` for code.

Code is everything that would run with the rights of the runner: artifacts, scripts, Python
functions and classes, `spark` vertices; and what makes Spark run code in less obvious ways:
settings that name jars, classes or JVM options, and SQL that calls Java methods, starts a program
or is no query. The rules list what is harmless: an operator, connector or setting that is not
listed needs a developer.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class CodeFound:
    """A place in a graph that makes the runner run code."""

    why: str
    field: str
    vertex: str | None = None
    """None: the place is in the graph itself."""
    setting: str | None = None
    """The setting of Spark that it is about."""


def role_of_graph(document: Mapping[str, Any], graph: JobGraph | None) -> tuple[Role, str]:
    """Return the role that running the graph needs, and the reason. `graph` is None if the document
    has faults: then the job cannot run, and only the artifacts matter, which are read before that.
    """
    code = next(code_in(document, graph), None)
    if code is None:
        return Role.OPERATOR, "the graph is made of built-in operators"
    return Role.DEVELOPER, code.why


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


def code_in(document: Mapping[str, Any], graph: JobGraph | None) -> Iterator[CodeFound]:
    """Yield every place where the graph makes the runner run code."""
    if document.get("artifacts"):
        yield CodeFound("the graph names artifacts", "artifacts")
    if graph is None:
        return
    for one in references(graph):
        why = f"vertex {one.vertex!r} runs the {one.field} {one.module}:{one.name}"
        yield CodeFound(why, one.field, one.vertex)
    for vertex in graph.every_vertex():
        yield from _code_of(vertex)
    for setting, value in graph.spark.items():
        if not _HARMLESS_SETTINGS.fullmatch(setting) or not _HARMLESS_VALUE.fullmatch(value):
            why = f"the setting {setting} can make Spark run code"
            yield CodeFound(why, "spark", setting=setting)
    for vertex_id, text in _texts(document.get("vertices"), None):
        where = "vertices" if vertex_id is None else repr(vertex_id)
        if names := names_in(text):
            why = f"the text of {where} uses the secret {names[0]!r}, which the job could give away"
            yield CodeFound(why, "vertices", vertex_id)
        for pattern, what in _DANGEROUS_SQL:
            if pattern.search(text):
                yield CodeFound(f"the text of {where} {what}", "vertices", vertex_id)


def _code_of(vertex: Vertex) -> Iterator[CodeFound]:
    if vertex.op not in BUILT_IN:
        yield CodeFound(f"vertex {vertex.id!r} is a {vertex.op}, which runs code", "op", vertex.id)
    if isinstance(vertex, Source | Sink) and (why := vertex.connector.code_in(vertex.options)):
        yield CodeFound(f"vertex {vertex.id!r} {why}", "connector", vertex.id)
    if isinstance(vertex, Ml) and vertex.model is not None:
        yield CodeFound(
            f"vertex {vertex.id!r} applies a saved model, and the files of a model can name code",
            "model",
            vertex.id,
        )
    if isinstance(vertex, Sql):
        if not _QUERY.match(vertex.query):
            yield CodeFound(
                f"the query of {vertex.id!r} does not begin with SELECT, WITH, FROM or VALUES, so "
                "it may be any statement",
                "query",
                vertex.id,
            )
        for pattern, what in _DANGEROUS_QUERY:
            if pattern.search(vertex.query):
                yield CodeFound(f"the query of {vertex.id!r} {what}", "query", vertex.id)


def _texts(value: Any, vertex: str | None) -> Iterator[tuple[str | None, str]]:
    """Yield every text in a part of the document, including keys, and the vertex it belongs to."""
    if isinstance(value, str):
        yield vertex, value
    elif isinstance(value, Mapping):
        named = value.get("id")
        inside = named if isinstance(named, str) else vertex
        for key, held in value.items():
            yield inside, str(key)
            yield from _texts(held, inside)
    elif isinstance(value, list):
        for held in value:
            yield from _texts(held, vertex)
