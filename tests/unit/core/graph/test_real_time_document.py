"""`execution: {style: real_time}`: which graphs can run so, and what is said of the others."""

from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import ExecutionStyle
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.plan.job_plan import plan_of


def a_source(name: str = "bids", **fields: Any) -> dict[str, Any]:
    return {
        "id": name,
        "op": "source",
        "connector": "kafka",
        "servers": "broker:9092",
        "topic": name,
        "format": "json",
        "schema": "auction BIGINT, price BIGINT, ts TIMESTAMP",
        "watermark": {"column": "ts", "delay": "5s"},
        **fields,
    }


def a_sink(*inputs: Any, **fields: Any) -> dict[str, Any]:
    return {
        "id": "out",
        "op": "sink",
        "inputs": list(inputs),
        "connector": "kafka",
        "servers": "broker:9092",
        "topic": "out",
        "format": "json",
        **fields,
    }


def a_table(name: str) -> dict[str, Any]:
    rows = [{"auction": 1, "title": "a"}]
    schema = "auction BIGINT, title STRING"
    return {"id": name, "op": "source", "connector": "table", "schema": schema, "rows": rows}


def a_document(*vertices: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "name": "at once",
        "execution": {"style": "real_time"},
        "checkpointing": {"interval": "5s"},
        "vertices": list(vertices),
        **fields,
    }


def an_aggregate(*inputs: str, name: str = "sums") -> dict[str, Any]:
    return {
        "id": name,
        "op": "aggregate",
        "inputs": list(inputs),
        "key": ["auction"],
        "aggregate": {"revenue": "sum(price)"},
    }


def faults_of(document: dict[str, Any]) -> list[str]:
    try:
        graph_document.parse(document)
    except InvalidJobGraph as error:
        return [str(fault) for fault in error.faults]
    return []


def test_operators_that_pass_rows_on_at_once_are_taken() -> None:
    document = a_document(
        a_source(),
        a_source("more"),
        a_table("titles"),
        {"id": "big", "op": "filter", "inputs": ["bids"], "where": "price > 1"},
        {"id": "all", "op": "union", "inputs": ["big", "more"]},
        {"id": "named", "op": "join", "inputs": ["all", "titles"], "on": ["auction"]},
        {"id": "less", "op": "map", "inputs": ["named"], "add": {"n": "1"}},
        an_aggregate("less"),
        a_sink("sums"),
    )

    graph = graph_document.parse(document)

    assert graph.execution.style is ExecutionStyle.REAL_TIME
    [region] = plan_of(graph).regions
    assert region.output_mode is OutputMode.UPDATE


def test_every_fault_is_told_at_once_with_its_vertex() -> None:
    document = a_document(
        a_source(max_rows_per_batch=10, options={"minPartitions": "4"}),
        {
            "id": "hourly",
            "op": "window",
            "inputs": ["bids"],
            "key": ["auction"],
            "window": {"tumbling": "10s"},
            "aggregate": {"n": "count(*)"},
        },
        a_sink("hourly", guarantee="exactly_once"),
        a_sink("bids", id="files", connector="files", path="out", servers=None, topic=None),
        execution={"style": "real_time", "batch_interval": "1s", "target_batch_time": "1s"},
        checkpointing={"interval": "2s", "timeout": "1s"},
    )
    del document["vertices"][3]["servers"], document["vertices"][3]["topic"]

    told = faults_of(document)

    for expected in (
        "execution.batch_interval: a real_time job has no batches to space out",
        "execution.target_batch_time: records pass at once in a real_time job",
        "checkpointing.interval: 2000 ms is too short",
        "checkpointing.timeout: 1000 ms is no longer than the interval",
        "bids.max_rows_per_batch: records pass at once",
        "bids.options.minPartitions: in real-time mode one task reads each partition",
        "hourly.op: a window emits once, when it has ended",
        "out.guarantee: a transaction publishes a whole batch",
        "files.connector: files takes the rows of a whole batch at once",
    ):
        assert [one for one in told if one.startswith(expected)], (expected, told)


@pytest.mark.parametrize(
    ("vertices", "told"),
    [
        (
            [a_source(connector="files", path="in", servers=None), a_sink("bids")],
            "bids.connector: Spark's real-time mode reads streams from kafka only, not from files",
        ),
        (
            [
                a_source(),
                {
                    "id": "f",
                    "op": "python",
                    "inputs": ["bids"],
                    "function": "a:b",
                    "output": "a INT",
                },
                a_sink("f"),
            ],
            "f.function: Spark's real-time mode runs no Python functions",
        ),
        (
            [
                a_source(),
                {
                    "id": "f",
                    "op": "process",
                    "inputs": ["bids"],
                    "key": ["auction"],
                    "function": "a:B",
                    "output": "a INT",
                },
                a_sink("f"),
            ],
            "f.function: Spark's real-time mode runs no state of Python functions",
        ),
        (
            [
                a_source(),
                a_source("more"),
                {
                    "id": "both",
                    "op": "join",
                    "inputs": ["bids", "more"],
                    "type": "left_semi",
                    "on": ["auction"],
                    "within": "1s",
                },
                a_sink("both"),
            ],
            "both.op: Spark's real-time mode cannot join two streams",
        ),
        (
            [
                a_source(),
                {
                    "id": "once",
                    "op": "distinct",
                    "inputs": ["bids"],
                    "key": ["auction"],
                    "within": "1m",
                },
                a_sink("once"),
            ],
            "once.within: Spark's real-time mode does not forget keys",
        ),
        (
            [
                a_source(),
                {"id": "a", "op": "filter", "inputs": ["bids"], "where": "price > 1"},
                {"id": "b", "op": "filter", "inputs": ["bids"], "where": "price < 1"},
                {"id": "both", "op": "union", "inputs": ["a", "b"]},
                a_sink("both"),
            ],
            "both.inputs: source 'bids' comes in twice",
        ),
        (
            [
                a_source(),
                a_source("more", schema="auction BIGINT, revenue BIGINT", watermark=None),
                an_aggregate("bids"),
                {"id": "both", "op": "union", "inputs": ["sums", "more"]},
                a_sink("both"),
            ],
            "both.inputs: Spark's real-time mode has no union after the keyed vertex 'sums'",
        ),
        (
            [
                a_source(),
                {"id": "once", "op": "distinct", "inputs": ["bids"], "key": ["auction", "price"]},
                an_aggregate("once"),
                a_sink("sums"),
            ],
            "out.inputs: the keyed vertices once and sums are one after the other",
        ),
        (
            [a_source(), an_aggregate("bids"), a_sink("sums"), a_sink("sums", id="two", topic="t")],
            "two.inputs: 'sums' also leads to 'out'",
        ),
        ([a_source(), a_sink("bids", mode="append")], "out.mode: Spark's real-time mode writes"),
        (
            [a_source(), a_sink("bids", connector="blackhole")],
            "out.connector: blackhole takes the rows of a whole batch",
        ),
    ],
)
def test_what_cannot_run_so_is_refused_with_vertex_and_reason(
    vertices: list[dict[str, Any]], told: str
) -> None:
    known = [{name: one for name, one in v.items() if one is not None} for v in vertices]

    found = faults_of(a_document(*known))

    assert [one for one in found if one.startswith(told)], found


def test_a_batch_job_is_refused() -> None:
    [told] = faults_of(a_document(a_source(), a_sink("bids"), mode="batch"))

    assert told.startswith("execution.style: a batch job has an end")


def test_the_same_graph_in_micro_batches_has_none_of_these_faults() -> None:
    document = a_document(a_source(), an_aggregate("bids"), a_sink("sums"))
    document |= {"execution": {"style": "micro_batch"}, "checkpointing": {"interval": "1s"}}

    assert faults_of(document) == []


def test_a_shorter_interval_is_taken_if_spark_is_told_to_allow_it() -> None:
    setting = {"spark.sql.streaming.realTimeMode.minBatchDuration": "1000"}
    checkpointing = {"interval": "1s"}
    document = a_document(a_source(), a_sink("bids"), checkpointing=checkpointing, spark=setting)

    assert faults_of(document) == []
    assert faults_of(document | {"spark": {}})
