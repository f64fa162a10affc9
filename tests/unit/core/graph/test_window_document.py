"""What a window may say, and what is refused with the vertex, the field and the way out."""

from datetime import timedelta
from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.window_kinds import (
    CountTrigger,
    CountWindow,
    DeltaEvictor,
    GlobalWindow,
    SessionWindow,
)
from jobmanager.core.graph.windows import Window
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.key_groups import Layout

Row = dict[str, Any]


def a_graph(*more: Row, watermark: bool = True, mode: str = "streaming", **window: Any) -> Row:
    """A source, a window, a sink; fields of the window that are None are left out."""
    source = {
        "id": "rows",
        "op": "source",
        "connector": "files",
        "format": "json",
        "path": "in",
        "schema": "k STRING, v BIGINT, ts TIMESTAMP",
    }
    if watermark:
        source["watermark"] = {"column": "ts"}  # type: ignore[assignment]
    fields = {"key": ["k"], "window": {"count": 3}, "aggregate": {"n": "count(*)"}, **window}
    vertex = {"id": "w", "op": "window", "inputs": ["rows"]}
    vertex |= {name: value for name, value in fields.items() if value is not None}
    sink = {"id": "out", "op": "sink", "inputs": ["w"], "connector": "blackhole"}
    return {"name": "test", "mode": mode, "vertices": [source, vertex, sink, *more]}


def window_of(document: Row) -> Window:
    vertex = graph_document.parse(document).vertex(VertexId("w"))
    assert isinstance(vertex, Window)
    return vertex


def late_sink(of: str = "w") -> Row:
    late = {"from": of, "side": "late"}
    return {"id": "late", "op": "sink", "inputs": [late], "connector": "blackhole"}


def faults_of(document: Row) -> list[str]:
    with pytest.raises(InvalidJobGraph) as raised:
        graph_document.parse(document)
    return [str(fault) for fault in raised.value.faults]


def test_count_windows_need_neither_time_nor_watermark() -> None:
    window = window_of(a_graph(watermark=False))

    assert (window.window, window.time) == (CountWindow(3), "")


def test_policies_are_read() -> None:
    window = window_of(
        a_graph(
            window={"global": True},
            trigger={"count": 2},
            evictor={"delta": "v", "threshold": 1.5},
        )
    )

    assert window.window == GlobalWindow()
    assert window.trigger == CountTrigger(2)
    assert window.evictor == DeltaEvictor("v", 1.5)


@pytest.mark.parametrize(
    ("fields", "is_buffered"),
    [
        ({"window": {"session": "5s"}}, False),
        ({"window": {"count": 3}}, True),
        ({"window": {"session": "5s"}, "allowed_lateness": "1s"}, True),
        ({"window": {"session": "5s"}, "evictor": {"count": 1}}, True),
        ({"window": {"session": "5s"}, "trigger": {"event_time": True}}, True),
    ],
)
def test_what_spark_has_no_window_for_is_kept_by_key_group(fields: Row, is_buffered: bool) -> None:
    window = window_of(a_graph(**fields))

    assert window.is_buffered is is_buffered
    assert window.state_layout is (Layout.GROUPED if is_buffered else Layout.HASHED)


def test_a_window_whose_late_rows_are_used_is_buffered() -> None:
    window = window_of(a_graph(late_sink(), window={"session": "5s"}))

    assert window.window == SessionWindow(timedelta(seconds=5))
    assert window.has_late_side
    assert window.is_buffered


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"window": {}}, "w.window: missing: {tumbling: d}"),
        ({"window": {"count": 3, "tumbling": "5s"}}, "w.window: tumbling and count at once"),
        ({"window": {"count": 0}}, "w.window.count: 0 is not a whole number"),
        ({"window": {"count": 2, "every": 3}}, "w.window.every: every is"),
        ({"window": {"global": False}}, "w.window.global: False is not true"),
        ({"window": {"global": True}}, "w.trigger: missing: a global window has no end"),
        ({"trigger": {"count": 3}}, "w.trigger: a count window determines"),
        ({"evictor": {"count": 3}}, "w.evictor: a count window determines"),
        ({"allowed_lateness": "5s"}, "w.allowed_lateness: only a time window"),
        (
            {"window": {"global": True}, "trigger": {"delta": "v"}},
            "w.trigger.threshold: missing: a number of 0 or more",
        ),
        (
            {"window": {"global": True}, "trigger": {"count": 1, "delta": "v"}},
            "w.trigger: count and delta at once",
        ),
        (
            {"window": {"tumbling": "5s"}, "evictor": {"delta": "v", "threshold": 0}},
            "w.evictor.threshold: 0 is not a number above 0",
        ),
        (
            {"window": {"session": "5s"}, "trigger": {"delta": "v", "threshold": 1}},
            "w.trigger: a delta trigger remembers a row",
        ),
        (
            {"window": {"tumbling": "5s"}, "trigger": {"event_time": True}, "watermark": False},
            "rows.watermark: missing: window 'w' emits when the watermark",
        ),
        (
            {"window": {"global": True}, "trigger": {"event_time": True}, "watermark": False},
            "rows.watermark: missing: window 'w' emits when the watermark",
        ),
        (
            {
                "window": {"global": True},
                "trigger": {"count": 1},
                "evictor": {"time": "5s"},
                "watermark": False,
            },
            "w.time: missing: name the time column",
        ),
        ({"aggregate": {"x": "percentile(v, 0.5)"}}, "w.aggregate: percentile is not available"),
        ({"aggregate": {"x": "v + 1"}}, "w.aggregate: 'v + 1' has no aggregate function"),
        (
            {"aggregate": {"pane": "count(*)"}},
            "w.aggregate: column 'pane' is already in the output",
        ),
        ({"function": "m:f"}, "w.aggregate: a window has aggregate or function"),
        ({"function": "m:f", "aggregate": None}, "w.output: missing: the columns"),
        ({"function": "f", "aggregate": None, "output": "x INT"}, "w.function: 'f' is not of"),
        ({"output": "x INT"}, "w.output: only a function has an output"),
    ],
)
def test_what_means_nothing_is_a_fault(fields: Row, told: str) -> None:
    found = faults_of(a_graph(**fields))

    assert any(fault.startswith(told) for fault in found), found


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        (a_graph(late_sink()), "late.inputs: 'w' has no side late"),
        (a_graph(late_sink("rows")), "late.inputs: 'rows' has no side late"),
    ],
)
def test_only_windows_of_time_have_a_late_side(graph: Row, told: str) -> None:
    assert any(fault.startswith(told) for fault in faults_of(graph))


def test_an_unknown_side_is_a_fault() -> None:
    graph = a_graph({**late_sink(), "inputs": [{"from": "w", "side": "early"}]})

    assert "late.inputs[0].side: 'early' is not one of late, bad" in faults_of(graph)


def test_all_faults_are_told_at_once() -> None:
    found = faults_of(a_graph(window={"count": 0}, allowed_lateness="x", output="x INT"))

    assert len(found) == 3
