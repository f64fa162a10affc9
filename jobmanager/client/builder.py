"""Builds job graphs in Python: a thin, typed layer over the job-graph document.

    env = Environment("revenue", parallelism=2)
    bids = env.source("files", format="csv", path="bids", schema=…, watermark=("ts", "5s"))
    (
        bids.filter("price > 100")
        .key_by("auction")
        .window(tumbling("10s"))
        .aggregate(revenue="sum(price)")
        .sink("files", format="parquet", path="out/revenue")
    )
    job = env.submit()

Vertex ids are the operators' names, numbered where an operator is used several times; every
method takes `id=` for an id of your own. Keep ids when a program changes: a new job finds its
state by vertex id.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from jobmanager.client import user_code
from jobmanager.client.job_handle import JobHandle
from jobmanager.client.sync_client import Client
from jobmanager.core.graph import graph_document

DEFAULT_URL = "http://127.0.0.1:8081"
Document: TypeAlias = dict[str, Any]
Function: TypeAlias = Any
"""A function or class at the top of a module, or its name: `module:name`."""
WindowKind: TypeAlias = Mapping[str, Any]


def tumbling(size: str) -> WindowKind:
    return {"tumbling": size}


def sliding(size: str, *, every: str) -> WindowKind:
    return {"sliding": size, "every": every}


def session(gap: str) -> WindowKind:
    return {"session": gap}


def count(rows: int, *, every: int | None = None) -> WindowKind:
    return {"count": rows, **({} if every is None else {"every": every})}


def everything() -> WindowKind:
    """Return a global window: one window for all rows of a key, emitted when its trigger says
    so.
    """
    return {"global": True}


class Environment:
    """A job graph under construction, and the server that it is submitted to."""

    def __init__(
        self,
        name: str,
        *,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        mode: str | None = None,
        checkpointing: Mapping[str, Any] | None = None,
        restart: Mapping[str, Any] | None = None,
        execution: Mapping[str, Any] | None = None,
        spark: Mapping[str, Any] | None = None,
        artifacts: list[str | Path] | None = None,
        meta: Mapping[str, Any] | None = None,
        url: str = DEFAULT_URL,
    ) -> None:
        self.url = url
        self._settings = _given(
            name=name,
            meta=meta,
            mode=mode,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            checkpointing=checkpointing,
            restart=restart,
            execution=execution,
            spark=spark,
        )
        self._artifacts: list[str] = [str(one) for one in artifacts or []]
        self._vertices: list[Document] = []

    def source(
        self,
        connector: str,
        *,
        id: str | None = None,
        schema: str | None = None,
        watermark: tuple[str, str] | None = None,
        **fields: Any,
    ) -> "Stream":
        """Read rows by a connector. `watermark` is the time column, and how late its rows may
        be.
        """
        marked = {"column": watermark[0], "delay": watermark[1]} if watermark else None
        return self._add(
            "source", id or connector, [], connector=connector, schema=schema, watermark=marked,
            **fields,
        )  # fmt: skip

    def graph(self) -> Document:
        """Return the job-graph document. Its artifacts are files on this machine until it is
        submitted.
        """
        document = dict(self._settings)
        if self._artifacts:
            document["artifacts"] = list(self._artifacts)
        document["vertices"] = [dict(vertex) for vertex in self._vertices]
        return document

    def check(self) -> None:
        """Check the graph without a server. Raises `InvalidJobGraph` with all faults."""
        graph_document.parse(self.graph(), is_new=True)

    def submit(
        self,
        *,
        savepoint: str | None = None,
        checkpoint: str | None = None,
        idempotency_key: str | None = None,
    ) -> JobHandle:
        """Upload the code that the graph names, and submit the graph."""
        return Client(self.url).submit(
            self.graph(),
            directory=Path.cwd(),
            savepoint=savepoint,
            checkpoint=checkpoint,
            idempotency_key=idempotency_key,
        )

    def _add(self, op: str, name: str, inputs: list[Any], **fields: Any) -> "Stream":
        taken = {vertex["id"] for vertex in self._vertices}
        vertex_id, number = name, 2
        while vertex_id in taken:
            vertex_id, number = f"{name}_{number}", number + 1
        vertex: Document = {"id": vertex_id, "op": op}
        if inputs:
            vertex["inputs"] = inputs
        self._vertices.append(vertex | _given(**fields))
        return Stream(self, vertex_id)

    def _named(self, function: Function) -> str:
        """Return the name of a function in the graph, and add its file to the artifacts."""
        named, path = user_code.reference(function), user_code.file_of(function)
        if path is not None and str(path) not in self._artifacts:
            self._artifacts.append(str(path))
        return named


class Stream:
    """The rows of one vertex."""

    def __init__(self, env: Environment, vertex: str, input: Any = None) -> None:
        self.env = env
        self.id = vertex
        self._input = input or vertex

    def shipped(self, ship: str) -> "Stream":
        """Return the same rows, shipped by `forward`, `hash`, `rebalance` or `broadcast`."""
        return Stream(self.env, self.id, {"from": self.id, "ship": ship})

    @property
    def late(self) -> "Stream":
        """Return the rows that came too late for a window."""
        return Stream(self.env, self.id, {"from": self.id, "side": "late"})

    def map(self, *, id: str | None = None, **columns: str) -> "Stream":
        """Replace the columns by these, each a Spark SQL expression."""
        return self._then("map", id, select=columns)

    def add(self, *, id: str | None = None, **columns: str) -> "Stream":
        """Add columns, each a Spark SQL expression, to the existing columns."""
        return self._then("map", id, add=columns)

    def drop(self, *columns: str, id: str | None = None) -> "Stream":
        return self._then("map", id, drop=list(columns))

    def filter(self, where: str, *, id: str | None = None) -> "Stream":
        return self._then("filter", id, where=where)

    def flat_map(
        self,
        explode: str,
        as_: str | list[str],
        *,
        keep: list[str] | None = None,
        id: str | None = None,
    ) -> "Stream":
        return self._then("flat_map", id, explode=explode, keep=keep, **{"as": as_})

    def union(self, *others: "Stream", id: str | None = None) -> "Stream":
        return self._then("union", id, *others)

    def join(
        self,
        other: "Stream",
        *,
        on: list[str] | None = None,
        where: str | None = None,
        type: str | None = None,
        within: str | None = None,
        id: str | None = None,
    ) -> "Stream":
        sides = {"left": self.id, "right": other.id}
        return self._then("join", id, other, **sides, type=type, on=on, where=where, within=within)

    def distinct(self, *key: str, within: str | None = None, id: str | None = None) -> "Stream":
        return self._then("distinct", id, key=list(key), within=within)

    def python(self, function: Function, output: str, *, id: str | None = None) -> "Stream":
        """Apply a stateless function to Arrow batches."""
        return self._then("python", id, function=self.env._named(function), output=output)

    def spark(
        self,
        function: Function,
        output: str,
        *others: "Stream",
        state: list[str] | None = None,
        id: str | None = None,
    ) -> "Stream":
        """Apply a PySpark function: `(spark, *inputs) -> DataFrame`."""
        named = self.env._named(function)
        return self._then("spark", id, *others, function=named, output=output, state=state)

    def sql(self, query: str, *others: "Stream", id: str | None = None) -> "Stream":
        """Apply a Spark SQL query; the inputs are tables named by their vertex ids."""
        return self._then("sql", id, *others, query=query)

    def key_by(self, *columns: str) -> "KeyedStream":
        return KeyedStream(self, list(columns))

    def window(self, window: WindowKind, *, time: str | None = None, **policy: Any) -> "Windowed":
        """Group all rows by window, without a key."""
        return KeyedStream(self, []).window(window, time=time, **policy)

    def aggregate(self, *, id: str | None = None, **results: str) -> "Stream":
        """Keep a running result over all rows, without a key."""
        return KeyedStream(self, []).aggregate(id=id, **results)

    def sink(
        self,
        connector: str,
        *,
        id: str | None = None,
        mode: str | None = None,
        **fields: Any,
    ) -> None:
        """Write the rows by a connector."""
        self._then("sink", id, connector=connector, mode=mode, **fields)

    def _then(self, op: str, id: str | None, *others: "Stream", **fields: Any) -> "Stream":
        inputs = [self._input, *(other._input for other in others)]
        return self.env._add(op, id or op, inputs, **fields)


class KeyedStream:
    """The rows of a vertex, by key."""

    def __init__(self, stream: Stream, key: list[str]) -> None:
        self._stream = stream
        self._key = key

    def aggregate(self, *, id: str | None = None, **results: str) -> Stream:
        """Keep a running result for each key; each batch emits the keys that changed."""
        return self._stream._then("aggregate", id, key=self._key or None, aggregate=results)

    def reduce(
        self,
        function: Function | None = None,
        *,
        output: str | None = None,
        id: str | None = None,
        **results: str,
    ) -> Stream:
        """Combine the rows of a key by a function, or by SQL aggregates."""
        named = None if function is None else self._stream.env._named(function)
        return self._stream._then(
            "reduce", id, key=self._key, function=named, output=output, aggregate=results or None
        )

    def distinct(self, *, within: str | None = None, id: str | None = None) -> Stream:
        """Keep the first row of each key."""
        return self._stream.distinct(*self._key, within=within, id=id)

    def process(
        self, function: Function, output: str, *, time: str | None = None, id: str | None = None
    ) -> Stream:
        """Apply a process function: a class with state and timers. `time`: event, processing or
        none.
        """
        named = self._stream.env._named(function)
        fields = {"function": named, "output": output, "time": time}
        return self._stream._then("process", id, key=self._key, **fields)

    def cogroup(
        self, other: Stream, function: Function, output: str, *, id: str | None = None
    ) -> Stream:
        """Apply a function to the rows of both inputs that have the same key."""
        sides = {"left": self._stream.id, "right": other.id}
        named = self._stream.env._named(function)
        fields = {"key": self._key, "function": named, "output": output}
        return self._stream._then("cogroup", id, other, **sides, **fields)

    def window(
        self,
        window: WindowKind,
        *,
        time: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        evictor: Mapping[str, Any] | None = None,
        allowed_lateness: str | None = None,
    ) -> "Windowed":
        fields = _given(
            key=self._key or None,
            time=time,
            window=window,
            trigger=trigger,
            evictor=evictor,
            allowed_lateness=allowed_lateness,
        )
        return Windowed(self._stream, fields)


class Windowed:
    """The rows of a vertex, by key and window."""

    def __init__(self, stream: Stream, fields: Document) -> None:
        self._stream = stream
        self._fields = fields

    def aggregate(self, *, id: str | None = None, **results: str) -> Stream:
        return self._stream._then("window", id, **self._fields, aggregate=results)

    def apply(self, function: Function, output: str, *, id: str | None = None) -> Stream:
        """Apply a function to the rows of a window."""
        named = self._stream.env._named(function)
        return self._stream._then("window", id, **self._fields, function=named, output=output)


def _given(**fields: Any) -> Document:
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in fields.items()
        if value is not None
    }
