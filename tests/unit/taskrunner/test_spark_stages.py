"""Which task does the work of which stage of Spark: only what both plans agree on."""

from typing import Any

import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.job_plan import plan_of
from taskrunner.core.spark_stages import (
    NodeKind,
    QueryStage,
    SparkPlanNode,
    StageRole,
    roles,
    stages_of_region,
    stages_of_spark,
)
from tests.support.builders import a_document

SCAN = SparkPlanNode(NodeKind.OTHER)


def shuffle(*below: SparkPlanNode) -> SparkPlanNode:
    return SparkPlanNode(NodeKind.SHUFFLE, None, below)


def state(operator: int, *below: SparkPlanNode) -> SparkPlanNode:
    return SparkPlanNode(NodeKind.OTHER, operator, below)


def wanted(document: dict[str, Any]) -> QueryStage:
    graph = graph_document.parse(document)
    plan = plan_of(graph)
    return stages_of_region(graph, plan, plan.regions[0])


def heads(found: list[StageRole]) -> list[str | None]:
    return [one.task.head if one.task else None for one in found]


def with_vertices(*vertices: dict[str, Any]) -> dict[str, Any]:
    document = a_document()
    source, *_, sink = document["vertices"]
    return {**document, "vertices": [source, *vertices, {**sink, "inputs": [vertices[-1]["id"]]}]}


def test_a_window_is_a_stage_after_the_stage_of_its_source() -> None:
    spark = stages_of_spark(state(0, state(0, shuffle(SCAN))), [VertexId("revenue")])

    found = roles(wanted(a_document()), spark)

    assert heads(found) == ["bids", "revenue"]
    assert [(one.reads_source, one.is_last) for one in found] == [(True, False), (False, True)]


def test_a_job_without_shuffles_is_one_stage() -> None:
    document = with_vertices({"id": "big", "op": "filter", "inputs": ["bids"], "where": "true"})

    found = roles(wanted(document), stages_of_spark(SCAN, []))

    assert heads(found) == ["bids"]
    assert (found[0].reads_source, found[0].is_last) == (True, True)


def test_rebalanced_rows_go_through_a_shuffle() -> None:
    rebalanced = {"id": "big", "op": "filter", "where": "true"}
    document = with_vertices({**rebalanced, "inputs": [{"from": "bids", "ship": "rebalance"}]})

    assert heads(roles(wanted(document), stages_of_spark(shuffle(SCAN), []))) == ["bids", "big"]


def test_a_shuffle_that_spark_has_left_out_leaves_the_stages_unknown() -> None:
    assert heads(roles(wanted(a_document()), stages_of_spark(SCAN, []))) == [None]


def test_a_shuffle_that_only_spark_knows_leaves_the_stages_before_it_unknown() -> None:
    more = state(0, shuffle(SCAN), shuffle(SCAN))

    found = roles(wanted(a_document()), stages_of_spark(more, [VertexId("revenue")]))

    assert heads(found) == [None, None, "revenue"]


def test_what_runs_in_another_job_is_no_stage() -> None:
    broadcast = SparkPlanNode(NodeKind.ELSEWHERE, None, (shuffle(SCAN),))
    spark = stages_of_spark(state(0, broadcast, shuffle(SCAN)), [VertexId("revenue")])

    assert heads(roles(wanted(a_document()), spark)) == ["bids", "revenue"]


def test_the_inputs_of_a_union_run_in_one_stage_and_cannot_be_told_apart() -> None:
    document = a_document()
    other = {**document["vertices"][0], "id": "others"}
    union = {"id": "both", "op": "union", "inputs": ["bids", "others"]}
    window = {**document["vertices"][2], "inputs": ["both"]}
    document["vertices"] = [document["vertices"][0], other, union, window, document["vertices"][3]]
    spark = stages_of_spark(
        state(0, shuffle(SparkPlanNode(NodeKind.OTHER, None, (SCAN, SCAN)))), [VertexId("revenue")]
    )

    assert heads(roles(wanted(document), spark)) == [None, "revenue"]


@pytest.mark.parametrize("number", [-1, 1, 7])
def test_a_stateful_operator_that_nobody_knows_is_not_a_vertex(number: int) -> None:
    spark = stages_of_spark(state(number, shuffle(SCAN)), [VertexId("revenue")])

    assert heads(roles(wanted(a_document()), spark)) == [None, None]
