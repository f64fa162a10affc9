"""Loops, graph algorithms and pipelines as documents: what is read, and every fault of them."""

from copy import deepcopy
from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.graph_algorithms import GraphAlgorithm, PageRank
from jobmanager.core.graph.iterations import DeltaIterate, Iterate
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.ml import Ml, StageKind
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.job_plan import plan_of, shared_by_regions


def a_table(vertex_id: str, schema: str = "id BIGINT, v DOUBLE") -> dict[str, Any]:
    return {"id": vertex_id, "op": "source", "connector": "table", "schema": schema, "rows": []}


def a_job(*vertices: dict[str, Any], mode: str = "batch") -> dict[str, Any]:
    """Sources `rows` and `others`, the vertices, and a sink behind the last of them."""
    sink = {"id": "out", "op": "sink", "inputs": [vertices[-1]["id"]], "connector": "blackhole"}
    used = {one for v in vertices for one in v.get("inputs", [])}
    sources = [a_table(name) for name in ("rows", "others") if name in used]
    return {"name": "j", "mode": mode, "vertices": [*sources, *deepcopy(list(vertices)), sink]}


def parsed(*vertices: dict[str, Any]) -> JobGraph:
    return graph_document.parse(a_job(*vertices))


def faults_of(*vertices: dict[str, Any], mode: str = "batch") -> list[str]:
    with pytest.raises(InvalidJobGraph) as raised:
        graph_document.parse(a_job(*vertices, mode=mode))
    return [str(fault) for fault in raised.value.faults]


HALVE = {"id": "half", "op": "map", "inputs": ["rows"], "select": {"id": "id", "v": "v / 2"}}
ITERATE = {
    "id": "loop",
    "op": "iterate",
    "inputs": ["rows"],
    "body": [HALVE],
    "max_iterations": 5,
    "until": "max(v) < 1",
}
DELTA = {
    "id": "loop",
    "op": "delta_iterate",
    "inputs": ["rows", "others"],
    "key": ["id"],
    "body": [
        {"id": "both", "op": "union", "inputs": ["rows", "others"]},
        {"id": "changed", "op": "filter", "inputs": ["both"], "where": "v > 0"},
        {"id": "todo", "op": "filter", "inputs": ["changed"], "where": "v > 1"},
    ],
    "delta": "changed",
    "workset": "todo",
    "max_iterations": 5,
}
GRAPH = {
    "id": "ranks",
    "op": "graph",
    "inputs": ["rows"],
    "src": "a",
    "dst": "b",
    "algorithm": {"pagerank": {"damping": 0.5}},
}
ML = {
    "id": "model",
    "op": "ml",
    "inputs": ["rows", "others"],
    "fit": "rows",
    "features": ["v"],
    "label": "id",
    "stages": [{"standard_scaler": {}}, {"linear_regression": {"regularization": 0.1}}],
}


def test_an_iterate_gives_what_nothing_in_its_body_uses() -> None:
    loop = parsed(ITERATE).vertex(VertexId("loop"))

    assert isinstance(loop, Iterate)
    assert loop.result == "half"
    assert loop.until == "max(v) < 1"


def test_a_delta_iterate_names_its_two_results() -> None:
    loop = parsed(DELTA).vertex(VertexId("loop"))

    assert isinstance(loop, DeltaIterate)
    assert (loop.delta, loop.workset, loop.key) == ("changed", "todo", ("id",))


def test_loops_can_be_inside_of_loops() -> None:
    inner = {**ITERATE, "id": "inner"}
    graph = parsed({**ITERATE, "body": [inner]})

    assert [vertex.id for vertex in graph.every_vertex()] == [
        "rows",
        "loop",
        "inner",
        "half",
        "out",
    ]


def test_any_operator_but_sources_and_sinks_can_be_in_a_body() -> None:
    wide = {"id": "wide", "op": "map", "inputs": ["others"], "select": {"id": "id", "w": "v"}}
    join = {"id": "joined", "op": "join", "inputs": ["rows", "wide"], "left": "rows"}
    join |= {"right": "wide", "type": "left", "on": ["id"]}
    query = "SELECT id, v + w AS v FROM joined"
    sql = {"id": "added", "op": "sql", "inputs": ["joined", "others"], "query": query}
    once = {"id": "once", "op": "distinct", "inputs": ["added"], "key": ["id"]}
    body = [join, wide, sql, once]

    loop = parsed({**ITERATE, "inputs": ["rows", "others"], "body": body}).vertex(VertexId("loop"))

    assert isinstance(loop, Iterate)
    assert [vertex.op for vertex in loop.body] == ["join", "map", "sql", "distinct"]


def test_a_graph_algorithm_has_networkx_defaults() -> None:
    ranks = parsed(GRAPH).vertex(VertexId("ranks"))

    assert isinstance(ranks, GraphAlgorithm)
    assert ranks.op == "graph"
    assert (ranks.edges, ranks.vertices) == ("rows", None)
    assert ranks.algorithm == PageRank(damping=0.5, max_iterations=100, tolerance=1e-6)


def test_a_pipeline_is_fitted_on_one_input_and_transforms_the_other() -> None:
    model = parsed(ML).vertex(VertexId("model"))

    assert isinstance(model, Ml)
    assert (model.fit, model.rows) == ("rows", "others")
    assert [stage.kind for stage in model.stages] == [
        StageKind.STANDARD_SCALER,
        StageKind.LINEAR_REGRESSION,
    ]
    assert [stage.name for stage in model.stages] == [None, "prediction"]


def test_a_stream_can_take_a_saved_model() -> None:
    document = a_job(
        {"id": "m", "op": "ml", "inputs": ["rows"], "model": "models/m"}, mode="streaming"
    )

    assert isinstance(graph_document.parse(document).vertex(VertexId("m")), Ml)


@pytest.mark.parametrize("vertex", [ITERATE, DELTA, GRAPH])
def test_these_are_for_batch_alone(vertex: dict[str, Any]) -> None:
    told = faults_of(vertex, mode="streaming")

    assert f"{vertex['id']}.op: {vertex['op']} needs all its rows at once: set the job's mode" in (
        "\n".join(told)
    )


def test_fitting_is_for_batch_alone() -> None:
    assert "model.fit: a pipeline is fitted in batch mode" in faults_of(ML, mode="streaming")[0]


NOT_AN_ID = (
    "loop/Wrong.id: 'Wrong' is not an id: lower-case letters, digits and _, a letter first, "
    "at most 63 characters"
)


def test_faults_in_a_body_name_the_loop_and_the_vertex_all_at_once() -> None:
    body = [
        {"id": "a", "op": "map", "inputs": ["rows"], "selct": {"x": "1"}},
        {"id": "b", "op": "fliter", "inputs": ["a"], "where": "true"},
        {"id": "c", "op": "filter", "inputs": ["nobody"]},
        {"id": "d", "op": "sink", "inputs": ["c"], "connector": "blackhole"},
        {"id": "rows", "op": "filter", "inputs": ["c"], "where": "true"},
        {"id": "Wrong", "op": "filter", "inputs": ["a"], "where": "true"},
        7,
    ]

    told = faults_of({**ITERATE, "body": body, "max_iterations": 0, "untill": "x"})

    assert told == [
        "loop/a.select: missing: a map needs select, add or drop",
        "loop/a.selct: unknown field 'selct': did you mean 'select'?",
        "loop/b.op: there is no operator 'fliter': did you mean 'filter'?",
        "loop/c.where: missing: a text is needed",
        NOT_AN_ID,
        "loop.body[6]: 7 is not a mapping",
        "loop/c.inputs: there is no vertex 'nobody'",
        "loop/d.op: a body has no sink: put it outside of the loop",
        "loop/rows.id: 'rows' is an input of the loop: choose another name",
        "loop.max_iterations: 0 is not a whole number from 1 to 100000",
        "loop.untill: unknown field 'untill': did you mean 'until'?",
    ]


def test_a_fault_two_loops_deep_has_the_whole_way() -> None:
    inner = {**ITERATE, "id": "inner", "body": [{**HALVE, "select": None}]}

    assert faults_of({**ITERATE, "body": [inner]}) == [
        "loop/inner/half.select: missing: a map needs select, add or drop"
    ]


def test_loops_cannot_be_ever_deeper() -> None:
    document = deepcopy(ITERATE)
    for _ in range(8):
        document = {**ITERATE, "body": [document]}

    assert any("loops can be nested 5 deep at most" in one for one in faults_of(document))


@pytest.mark.parametrize(
    ("vertex", "told"),
    [
        ({**ITERATE, "body": None}, "loop.body: missing: a list of vertices"),
        ({**ITERATE, "body": []}, "loop.body: missing: a list of vertices"),
        ({**ITERATE, "max_iterations": None}, "loop.max_iterations: missing"),
        (
            {**ITERATE, "body": [HALVE, {**HALVE, "id": "other"}]},
            "loop.body: the body of a loop must have a single result, but nothing uses half, other",
        ),
        (
            {**ITERATE, "body": [{**HALVE, "inputs": ["half"]}]},
            "loop/half.inputs: the graph has a cycle: half -> half",
        ),
        ({**DELTA, "inputs": ["rows"]}, "loop.inputs: a delta_iterate needs two inputs"),
        ({**DELTA, "key": []}, "loop.key: missing"),
        ({**DELTA, "delta": None}, "loop.delta: missing"),
        ({**DELTA, "workset": "nothing"}, "loop.body: there is no vertex 'nothing' in the body"),
        ({**DELTA, "workset": "changed"}, "loop/todo.id: nothing uses this vertex: drop it"),
        (
            {**ITERATE, "body": [{**ML, "inputs": ["rows"], "save": "m"}]},
            "loop/model.save: every round would save another model",
        ),
        (
            {**GRAPH, "algorithm": {"page_rank": {}}},
            "ranks.algorithm: there is no algorithm 'page_rank': did you mean 'pagerank'?",
        ),
        ({**GRAPH, "algorithm": None}, "ranks.algorithm: missing: one of pagerank, connected"),
        ({**GRAPH, "algorithm": "pagerank"}, "ranks.algorithm: 'pagerank' is not one of"),
        (
            {**GRAPH, "algorithm": {"pagerank": {"dampening": 1}}},
            "ranks.algorithm.pagerank.dampening: unknown field 'dampening': did you mean",
        ),
        (
            {**GRAPH, "algorithm": {"pagerank": {"damping": 2}}},
            "ranks.algorithm.pagerank.damping: 2 is not a number from 0 to 1",
        ),
        ({**GRAPH, "algorithm": {"sssp": {}}}, "ranks.algorithm.sssp.from: missing"),
        (
            {**GRAPH, "algorithm": {"vertex_update": {}}},
            "ranks.algorithm.vertex_update.combine: missing: a text is needed",
        ),
        (
            {**GRAPH, "weight": "w", "algorithm": {"triangles": {}}},
            "ranks.weight: triangles does not weigh edges",
        ),
        ({**GRAPH, "edges": "nobody"}, "ranks.edges: 'nobody' is not one of the inputs: rows"),
        ({**GRAPH, "dst": "a"}, "ranks.dst: both ends of an edge are 'a'"),
        ({**GRAPH, "inputs": ["rows", "others"]}, "ranks.edges: missing: which of the inputs"),
        (
            {**GRAPH, "inputs": ["rows", "others"], "edges": "rows"},
            "ranks.inputs: neither edges nor vertices: others",
        ),
        ({**ML, "fit": "nobody"}, "model.fit: 'nobody' is not one of the inputs"),
        ({**ML, "fit": None}, "model.fit: missing: the input to fit on, or model"),
        ({**ML, "stages": []}, "model.stages: missing: a list of one or more of string_indexer"),
        (
            {**ML, "stages": [{"kmeans": {}}]},
            "model.stages[0]: there is no stage 'kmeans': did you mean 'k_means'?",
        ),
        ({**ML, "stages": [{"k_means": {}}]}, "model.stages[0].k_means.k: missing"),
        (
            {**ML, "stages": [{"standard_scaler": {"withmean": 1}}]},
            "model.stages[0].standard_scaler.withmean: unknown field 'withmean': did you mean",
        ),
        (
            {**ML, "stages": [{"standard_scaler": {"with_mean": 1}}]},
            "model.stages[0].standard_scaler.with_mean: 1 is not true or false",
        ),
        (
            {**ML, "stages": [{"linear_regression": {}}, {"standard_scaler": {}}]},
            "model.stages[0]: linear_regression predicts, and nothing can come after it",
        ),
        ({**ML, "label": None}, "model.label: missing: the column that linear_regression is to"),
        ({**ML, "features": None}, "model.features: missing"),
        (
            {**ML, "stages": [{"one_hot": {"columns": ["x"]}}, {"k_means": {"k": 2}}]},
            "model.stages[0].one_hot.columns: 'x' is not one of the features",
        ),
        ({**ML, "stages": [{"k_means": {"k": 2}}]}, "model.label: none of k_means has a label"),
        (
            {**ML, "model": "m"},
            "model.fit: a saved model already determines this: drop 'fit', or drop 'model'",
        ),
        (
            {**ML, "stages": [{"als": {"user": "u", "item": "i"}}]},
            "model.features: als takes users and items: leave this out",
        ),
    ],
)
def test_each_fault_names_the_vertex_the_field_and_the_way_out(
    vertex: dict[str, Any], told: str
) -> None:
    assert told in "\n".join(faults_of(vertex))


def test_regions_part_where_the_next_vertex_is_not_in_all_of_them() -> None:
    graph = graph_document.parse(
        {
            "name": "j",
            "mode": "batch",
            "vertices": [
                a_table("rows"),
                {"id": "a", "op": "filter", "inputs": ["rows"], "where": "true"},
                {"id": "b", "op": "filter", "inputs": ["a"], "where": "true"},
                {"id": "c", "op": "filter", "inputs": ["b"], "where": "true"},
                {"id": "one", "op": "sink", "inputs": ["b"], "connector": "blackhole"},
                {"id": "two", "op": "sink", "inputs": ["c"], "connector": "blackhole"},
            ],
        }
    )

    assert shared_by_regions(graph, plan_of(graph).regions) == {"b"}
