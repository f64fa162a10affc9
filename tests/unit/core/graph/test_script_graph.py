"""What is found in a script, as a job graph."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.script_graph import (
    FoundQuery,
    FoundSink,
    ScriptCall,
    UnsupportedScript,
    graph_of,
)
from jobmanager.core.graph.spark_interval import NotAnInterval, interval_of
from jobmanager.core.ids import VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.job_plan import SnapshotKind, awaited, plan_of

_CALL = ScriptCall("a" * 64, ["--fast"], ["b" * 64], "app", 2, {"spark.sql.ansi.enabled": "false"})
_SINK = FoundSink("parquet", "out", {"path": "out"}, [], None, None)
_QUERY = FoundQuery("Per Word!", ["files"], ["aggregate", "join"], "update", {}, _SINK)


def _sink(**changes: Any) -> dict[str, Any]:
    query = replace(_QUERY, output_mode="append", sink=replace(_SINK, **changes))
    found: dict[str, Any] = graph_of(_CALL, [query])["vertices"][-1]
    return {name: value for name, value in found.items() if name not in ("id", "op", "inputs")}


def test_a_script_is_a_sound_graph_whose_state_is_awaited() -> None:
    graph = graph_document.parse(graph_of(_CALL, [_QUERY, replace(_QUERY, sources=["a", "b"])]))

    regions = plan_of(graph).regions
    assert [region.id for region in regions] == ["per_word", "per_word_2"]
    assert regions[0].output_mode == "update"
    assert spark_order.keyed(graph, VertexId("per_word")) == ["per_word_query"] * 2
    assert spark_order.sources(graph, VertexId("per_word_2")) == [
        *("per_word_2_source_1", "per_word_2_source_2")
    ]
    states = [ref for ref, kind in awaited(graph, 2).items() if kind is SnapshotKind.STATE]
    assert sorted((ref.vertex, ref.subtask) for ref in states) == [
        *(("per_word_2_query", 0), ("per_word_2_query", 1)),
        *(("per_word_query", 0), ("per_word_query", 1)),
    ]
    assert graph.artifacts == ("a" * 64, "b" * 64)


@pytest.mark.parametrize(
    ("changes", "connector"),
    [
        ({}, "files"),
        ({"path": None}, "script"),
        ({"format": "kafka"}, "script"),
        ({"function": "foreachBatch"}, "script"),
        ({"table": "t"}, "script"),
        ({"format": "console"}, "console"),
        ({"format": "noop"}, "blackhole"),
    ],
)
def test_files_are_exactly_once_and_the_rest_is_the_scripts(
    changes: dict[str, Any], connector: str
) -> None:
    assert _sink(**changes)["connector"] == connector


def test_options_of_files_are_kept_but_for_those_of_the_query() -> None:
    found = _sink(options={"path": "out", "checkpointLocation": "c", "compression": "none"})

    assert found["options"] == {"compression": "none"}


def test_what_no_job_can_do_is_told_all_at_once() -> None:
    bad = replace(_QUERY, trigger={"continuous": "1 second"}, sink=replace(_SINK, format="memory"))

    with pytest.raises(UnsupportedScript, match=r"continuous.*memory"):
        graph_of(_CALL, [bad])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10 seconds", 10), ("1 minute 30 seconds", 90), ("interval 2 hours", 7200), ("5 SECOND", 5)],
)
def test_intervals_are_read_as_spark_does(text: str, seconds: int) -> None:
    assert interval_of(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "10", "soon", "1 month", "10 seconds or so"])
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(NotAnInterval):
        interval_of(text)


def test_state_of_one_partition_and_of_many_is_not_mixed() -> None:
    document = graph_of(_CALL, [replace(_QUERY, state=["total", "aggregate"])])

    with pytest.raises(InvalidJobGraph, match="split the vertex in two"):
        graph_document.parse(document)
