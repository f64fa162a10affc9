"""Reads a job-graph document (a mapping, from JSON or YAML) into a `JobGraph`.

One pass finds every fault: `parse` either returns a graph that can be planned, or raises
`InvalidJobGraph` with all faults.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from jobmanager.core.errors import Fault, InvalidJobGraph
from jobmanager.core.graph import graph_shape, meta, real_time, secret_places, vertex_document
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.job_graph import (
    Checkpointing,
    Execution,
    ExecutionStyle,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    JobGraph,
    Mode,
    NoRestart,
    RestartStrategy,
    RunnerKind,
)
from jobmanager.core.graph.parallelism import divisors
from jobmanager.core.graph.vertex import Vertex

MOST_KEY_GROUPS = 32_768
MOST_VERTICES = 500
MOST_ARTIFACTS = 100
MOST_NAME = 255
MOST_LEVELS = 100
"""Of mappings and lists inside of a field. What reads a graph calls itself for each level."""
_STAND_IN = timedelta(seconds=1)


class _Strategy(StrEnum):
    NONE = "none"
    FIXED_DELAY = "fixed_delay"
    EXPONENTIAL_DELAY = "exponential_delay"
    FAILURE_RATE = "failure_rate"


def check_depth(document: Mapping[str, Any]) -> None:
    """Raise `InvalidJobGraph` for each field that has more than `MOST_LEVELS` levels."""
    faults = [
        Fault(None, str(field), f"has more than {MOST_LEVELS} levels of mappings and lists")
        for field, value in document.items()
        if _has_too_many_levels(value)
    ]
    if faults:
        raise InvalidJobGraph(faults)


def _has_too_many_levels(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        level = [part for one in level for part in _parts(one)]
        if not level:
            return False
    return True


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


def parse(document: Mapping[str, Any], *, is_new: bool = False) -> JobGraph:
    """Read the graph in `document`. Raises `InvalidJobGraph` with every fault. The name of a new
    graph has limits; graphs that were stored before there were limits are still read.
    """
    if is_new:
        check_depth(document)
    faults = Faults()
    fields = Fields(document, faults, vertex=None)
    name = _new_name(fields) if is_new else fields.text("name")
    mode = fields.choice("mode", Mode, Mode.STREAMING)
    parallelism, max_parallelism = _parallelism(fields)
    graph = JobGraph(
        name=name,
        mode=mode,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        checkpointing=_checkpointing(fields.section("checkpointing")),
        restart=_restart(fields.section("restart")),
        execution=_execution(fields.section("execution")),
        spark=_spark(fields),
        vertices=_vertices(fields, faults, mode),
        artifacts=_artifacts(fields),
        meta=meta.read(fields.section(meta.FIELD)),
    )
    fields.done()
    if graph.execution.is_real_time:
        real_time.check(graph, faults)
    if is_new:
        secret_places.check(document, faults)
    if faults.found:
        raise InvalidJobGraph(faults.found)
    return graph


def _new_name(fields: Fields) -> str:
    name = fields.text("name")
    if len(name) > MOST_NAME:
        fields.fault("name", f"{len(name)} characters are too many: {MOST_NAME} at most")
    if any(ord(one) < ord(" ") or one == "\x7f" for one in name):
        fields.fault("name", f"{name[:MOST_NAME]!r} contains control characters: leave them out")
    return name


def parallelism_fault(parallelism: int, max_parallelism: int) -> str | None:
    """Return why a job with that many key groups cannot run at `parallelism`; None if it can."""
    if max_parallelism % parallelism == 0:
        return None
    fitting = ", ".join(str(p) for p in divisors(max_parallelism)[:24])
    return (
        f"parallelism {parallelism} does not divide max_parallelism {max_parallelism}: "
        f"use one of {fitting}"
    )


def _parallelism(fields: Fields) -> tuple[int, int]:
    parallelism = fields.integer("parallelism", 1, least=1, most=MOST_KEY_GROUPS)
    max_parallelism = fields.integer("max_parallelism", 720, least=1, most=MOST_KEY_GROUPS)
    if parallelism is None or max_parallelism is None:
        return 1, 720
    if fault := parallelism_fault(parallelism, max_parallelism):
        fields.fault("parallelism", fault)
    return parallelism, max_parallelism


def _checkpointing(fields: Fields) -> Checkpointing:
    checkpointing = Checkpointing(
        interval=fields.duration("interval", "10s") or _STAND_IN,
        timeout=fields.duration("timeout", "10m") or _STAND_IN,
        min_pause=fields.duration("min_pause", "0s", zero=True) or timedelta(0),
        retained=fields.integer("retained", 3, least=1) or 1,
        tolerable_failures=fields.integer("tolerable_failures", 0, least=0) or 0,
    )
    fields.done()
    return checkpointing


def _restart(fields: Fields) -> RestartStrategy:
    strategy: RestartStrategy
    match fields.choice("strategy", _Strategy, _Strategy.EXPONENTIAL_DELAY):
        case _Strategy.NONE:
            strategy = NoRestart()
        case _Strategy.FIXED_DELAY:
            strategy = FixedDelay(
                attempts=fields.integer("attempts", 3, least=1) or 1,
                delay=fields.duration("delay", "1s", zero=True) or timedelta(0),
            )
        case _Strategy.FAILURE_RATE:
            strategy = FailureRate(
                max_failures=fields.integer("max_failures", 3, least=1) or 1,
                interval=fields.duration("interval", "10m") or _STAND_IN,
                delay=fields.duration("delay", "1s", zero=True) or timedelta(0),
            )
        case _Strategy.EXPONENTIAL_DELAY:
            strategy = ExponentialDelay(
                initial_delay=fields.duration("initial_delay", "1s") or _STAND_IN,
                max_delay=fields.duration("max_delay", "1m") or _STAND_IN,
                reset_after=fields.duration("reset_after", "10m") or _STAND_IN,
                max_attempts=fields.integer("max_attempts", None, least=1),
            )
    fields.done()
    return strategy


def _execution(fields: Fields) -> Execution:
    style = fields.choice("style", ExecutionStyle, ExecutionStyle.MICRO_BATCH)
    if style is ExecutionStyle.REAL_TIME and fields.has("batch_interval"):
        fields.fault(
            "batch_interval",
            "a real_time job has no batches to space out: leave batch_interval out, and set "
            "checkpointing.interval",
        )
    if style is ExecutionStyle.REAL_TIME and fields.has("target_batch_time"):
        fields.fault(
            "target_batch_time",
            "records pass at once in a real_time job, and no batch is limited: leave it out",
        )
    interval = fields.duration("batch_interval", "0s", zero=True) or timedelta(0)
    target = fields.duration("target_batch_time", "20s", zero=True) or timedelta(0)
    runner = fields.choice("runner", RunnerKind, RunnerKind.OWN)
    fields.done()
    return Execution(interval, style, target, runner)


# Settings that decide where state is and what a checkpoint holds. If a job could change them,
# acks and the key-group assignment would be wrong.
OURS = (
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.stateStore.",
    "spark.sql.streaming.checkpointLocation",
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.sql.streaming.minBatchesToRetain",
)
_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
_RATIO = re.compile(r"0|1|0?\.[0-9]+|1\.0+")
# Settings of state that a job may change, within bounds: how much memory RocksDB takes, and the
# format of joins. Spark's repartition loses rows of the newest format.
STATE_SETTINGS = {
    "spark.sql.streaming.join.stateFormatVersion": (
        "2 or 3, since a rescale would lose rows of other formats",
        re.compile("[23]"),
    ),
    f"{_ROCKSDB}.boundedMemoryUsage": ("true or false", re.compile("true|false")),
    f"{_ROCKSDB}.maxMemoryUsageMB": ("a positive number of megabytes", re.compile("[1-9][0-9]*")),
    f"{_ROCKSDB}.writeBufferCacheRatio": ("a number from 0 to 1", _RATIO),
    f"{_ROCKSDB}.highPriorityPoolRatio": ("a number from 0 to 1", _RATIO),
}


def _spark(fields: Fields) -> dict[str, str]:
    settings = fields.settings("spark")
    for setting, value in settings.items():
        if not setting.startswith("spark."):
            fields.fault("spark", f"{setting!r} is not a Spark setting: they begin with 'spark.'")
        if setting in STATE_SETTINGS:
            expected, pattern = STATE_SETTINGS[setting]
            if not pattern.fullmatch(value):
                fields.fault("spark", f"{setting!r} must be {expected}, not {value!r}")
        elif setting.startswith(OURS):
            fields.fault("spark", f"{setting!r} is set by Headgate: leave it out")
    return settings


def _artifacts(fields: Fields) -> tuple[str, ...]:
    value = fields.raw("artifacts")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        fields.fault("artifacts", f"{value!r} is not a list of artifacts: ids, names or paths")
        return ()
    if len(value) > MOST_ARTIFACTS:
        fields.fault("artifacts", f"{len(value)} are too many: {MOST_ARTIFACTS} at most")
    for twice in sorted({one for one in value if value.count(one) > 1}):
        fields.fault("artifacts", f"{twice!r} is named twice")
    return tuple(value)


def _vertices(fields: Fields, faults: Faults, mode: Mode) -> tuple[Vertex, ...]:
    documents = fields.raw("vertices")
    if not isinstance(documents, list) or not documents:
        fields.fault("vertices", "missing: a list of at least one source and one sink is needed")
        return ()
    if len(documents) > MOST_VERTICES:
        fields.fault("vertices", f"{len(documents)} are too many: {MOST_VERTICES} at most")
        return ()
    shape = graph_shape.GraphShape()
    drafts: list[vertex_document.VertexDraft] = []
    for position, document in enumerate(documents):
        if not isinstance(document, Mapping):
            faults.add(None, f"vertices[{position}]", f"{document!r} is not a mapping")
            continue
        vertex_id = graph_shape.vertex_id(document, f"vertices[{position}]", faults)
        draft = vertex_document.read(document, vertex_id, faults, mode)
        shape.add(vertex_id, draft.op, draft.vertex.inputs)
        drafts.append(draft)
    if not graph_shape.check(shape, faults):
        return ()
    return vertex_document.finish(drafts, faults, mode)
