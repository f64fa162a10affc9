"""The Spark SQL in a vertex, each text with the field it stands in."""

from collections.abc import Iterator, Mapping

from jobmanager.core.graph.job_graph import Vertex, Window

_SINGLE = ("where", "explode")
_NAMED = ("select", "add", "aggregate")
_POLICIES = ("trigger", "evictor")
_COLUMNS = ("key", "time", "drop", "partition_by")


def expressions_of(vertex: Vertex) -> Iterator[tuple[str, str]]:
    """Field and expression, in the order in which they are written down in the language."""
    for field in _SINGLE:
        text = getattr(vertex, field, None)
        if isinstance(text, str):
            yield field, text
    for field in _NAMED:
        texts = getattr(vertex, field, None)
        if isinstance(texts, Mapping):
            yield from ((f"{field}.{column}", text) for column, text in texts.items())
    for field in _POLICIES:
        delta = getattr(getattr(vertex, field, None), "delta", None)
        if isinstance(delta, str):
            yield f"{field}.delta", delta


def columns_of(vertex: Vertex) -> Iterator[tuple[str, str]]:
    """Field and the name of an input's column that it has to find there."""
    may_lack_time = isinstance(vertex, Window) and vertex.is_time_implied and not vertex.needs_time
    for field in _COLUMNS:
        if field == "time" and may_lack_time:
            continue
        names = getattr(vertex, field, None)
        if isinstance(names, str) and names:
            yield field, names
        elif isinstance(names, tuple):
            yield from ((field, name) for name in names if isinstance(name, str))
