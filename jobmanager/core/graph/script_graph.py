"""Makes the job-graph document of a script from the queries found in it.

A query is three kinds of vertices: a source for each stream it reads, one `script` vertex, and a
sink whose id is the query's name, and so the region's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobmanager.core.durations import render
from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.graph.spark_interval import NotAnInterval, interval_of

_AT_LEAST_ONCE = "script"
_FILES = frozenset(one.value for one in FileFormat)
_KEPT_BY_HEADGATE = frozenset(["checkpointlocation", "path"])


@dataclass(frozen=True, slots=True)
class FoundSink:
    """What a script writes to, in Spark's terms."""

    format: str
    path: str | None
    options: Mapping[str, str]
    partition_by: Sequence[str]
    table: str | None
    function: str | None
    """`foreachBatch` or `foreach`."""


@dataclass(frozen=True, slots=True)
class FoundQuery:
    name: str
    sources: Sequence[str]
    """A description of each source, in Spark's order."""
    state: Sequence[str]
    output_mode: str
    trigger: Mapping[str, Any]
    """As given to Spark's writer."""
    sink: FoundSink


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script, and how it is called."""

    script: str
    arguments: Sequence[str]
    artifacts: Sequence[str]
    """The artifacts, without the script itself."""
    name: str
    parallelism: int | None
    spark: Mapping[str, str]


class UnsupportedScript(ValueError):
    """A query does something that jobs do not support."""


def graph_of(call: ScriptCall, queries: Sequence[FoundQuery]) -> dict[str, Any]:
    """Return the document. Raises `UnsupportedScript` with every reason."""
    reasons = [
        f"query {query.name}: {reason}" for query in queries for reason in _objections(query)
    ]
    if reasons:
        raise UnsupportedScript("; ".join(reasons))
    taken: set[str] = set()
    document: dict[str, Any] = {"name": call.name}
    if call.parallelism is not None:
        document["parallelism"] = call.parallelism
    if call.spark:
        document["spark"] = dict(call.spark)
    document["artifacts"] = list(dict.fromkeys([call.script, *call.artifacts]))
    document["vertices"] = [
        vertex for query in queries for vertex in _vertices(call, query, _id(query.name, taken))
    ]
    return document


def _vertices(call: ScriptCall, query: FoundQuery, name: str) -> Iterator[dict[str, Any]]:
    many = len(query.sources) > 1
    sources = [
        f"{name}_source_{number}" if many else f"{name}_source"
        for number in range(1, len(query.sources) + 1)
    ]
    for source, description in zip(sources, query.sources, strict=True):
        yield {
            "id": source,
            "op": "source",
            "connector": "script",
            "description": description or "a stream",
        }
    itself: dict[str, Any] = {
        "id": f"{name}_query",
        "op": "script",
        "inputs": sources,
        "script": call.script,
        "query": query.name,
        "output_mode": query.output_mode,
    }
    if call.arguments:
        itself["arguments"] = list(call.arguments)
    if query.state:
        itself["state"] = list(query.state)
    if "processingTime" in query.trigger:
        itself["batch_interval"] = render(interval_of(str(query.trigger["processingTime"])))
    if _ends(query.trigger):
        itself["available_now"] = True
    yield itself
    yield {"id": name, "op": "sink", "inputs": [f"{name}_query"], **_sink(query)}


def _sink(query: FoundQuery) -> dict[str, Any]:
    sink = query.sink
    if sink.function is not None:
        return {"connector": _AT_LEAST_ONCE, "description": sink.function}
    if sink.table is not None:
        return {"connector": _AT_LEAST_ONCE, "description": f"table {sink.table}"}
    if sink.format == "console":
        return {"connector": "console"}
    if sink.format == "noop":
        return {"connector": "blackhole"}
    if sink.format in _FILES and sink.path and query.output_mode == "append":
        return _files(sink)
    return {"connector": _AT_LEAST_ONCE, "description": " ".join([sink.format, sink.path or ""])}


def _files(sink: FoundSink) -> dict[str, Any]:
    found: dict[str, Any] = {"connector": "files", "format": sink.format, "path": sink.path}
    options = {k: v for k, v in sink.options.items() if k.lower() not in _KEPT_BY_HEADGATE}
    if sink.partition_by:
        found["partition_by"] = list(sink.partition_by)
    if options:
        found["options"] = options
    return found


def _ends(trigger: Mapping[str, Any]) -> bool:
    return bool(trigger.get("availableNow") or trigger.get("once"))


def _objections(query: FoundQuery) -> Iterator[str]:
    if query.output_mode not in ("append", "update", "complete"):
        yield f"there is no output mode {query.output_mode!r}"
    for kind in ("continuous", "realTime"):
        if kind in query.trigger:
            yield f"trigger {kind} has no batches, and checkpoints are taken between batches"
    if "processingTime" in query.trigger:
        try:
            interval_of(str(query.trigger["processingTime"]))
        except NotAnInterval as error:
            yield str(error)
    if query.sink.format == "memory" and query.sink.function is None:
        yield "a memory table is lost when the process ends: write to files, or use foreachBatch"
    if not query.sources:
        yield "the query reads no stream"


def _id(name: str, taken: set[str]) -> str:
    """Make a unique vertex id of the query's name."""
    plain = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")
    plain = (plain if plain[:1].isalpha() else f"q_{plain}")[:40]
    found, number = plain, 2
    while found in taken:
        found, number = f"{plain}_{number}", number + 1
    taken.add(found)
    return found
