"""The packaged graph algorithms, against networkx on random graphs."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Hashable
from typing import Any

import networkx
import pytest
from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python  # needs no scipy

from taskrunner.core.invalid_vertex import InvalidVertex
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink

Edge = tuple[Any, Any, float]


def random_edges(seed: int, vertices: int, edges: int) -> list[Edge]:
    """With loops from a vertex to itself, repeated edges and parts that are not connected."""
    dice = random.Random(seed)
    found = [
        (dice.randrange(vertices), dice.randrange(vertices), float(dice.randint(1, 9)))
        for _ in range(edges)
    ]
    apart = [(vertices + 1, vertices + 2, 1.0), (vertices + 2, vertices + 1, 2.0)]
    return [*found, *found[:3], (0, 0, 4.0), (vertices + 3, vertices + 3, 1.0), *apart]


LONE = 999
"""A vertex that no edge names."""


def run(
    job: JobUnderTest, edges: list[Edge], kind: str = "BIGINT", weight: bool = False, **what: Any
) -> dict[Any, Any]:
    """What each vertex comes out with, from a job that is told of the lonely vertex."""
    rows = [{"a": a, "b": b, "w": w} for a, b, w in edges]
    lone = [{"id": LONE if kind == "BIGINT" else "lone"}]
    source = {"op": "source", "connector": "table"}
    vertex: Row = {
        "id": "algorithm",
        "op": "graph",
        "inputs": ["edges", "lonely"],
        "edges": "edges",
        "vertices": "lonely",
        "src": "a",
        "dst": "b",
        "algorithm": what,
        **({"weight": "w"} if weight else {}),
    }
    job.define(
        {"id": "edges", **source, "schema": f"a {kind}, b {kind}, w DOUBLE", "rows": rows},
        {"id": "lonely", **source, "schema": f"id {kind}", "rows": lone},
        vertex,
        files_sink("algorithm"),
        mode="batch",
    ).run()
    found = [tuple(row.values()) for row in job.output()]
    assert len(dict(found)) == len(found), "a vertex came out twice"
    return dict(found)


def directed(edges: list[Edge], lone: Hashable = LONE) -> Any:
    graph = networkx.MultiDiGraph()
    graph.add_node(lone)
    graph.add_weighted_edges_from(edges)
    return graph


def simple(edges: list[Edge], lone: Hashable = LONE) -> Any:
    """Undirected, each edge once, none from a vertex to itself."""
    graph = networkx.Graph(directed(edges, lone).to_undirected())
    graph.remove_edges_from(list(networkx.selfloop_edges(graph)))
    return graph


EDGES = random_edges(seed=1, vertices=20, edges=45)
OTHERS = [random_edges(seed=n, vertices=10 * n, edges=17 * n) for n in (2, 3, 4)]


def as_text(edges: list[Edge]) -> list[Edge]:
    return [(f"v{a}", f"v{b}", w) for a, b, w in edges]


def check_page_rank(job: JobUnderTest, edges: list[Edge]) -> None:
    found = run(job, edges, weight=True, pagerank={"damping": 0.8, "tolerance": 1e-3})

    expected = _pagerank_python(directed(edges), alpha=0.8, tol=1e-3)
    assert found == pytest.approx(expected, abs=1e-9)
    assert sum(found.values()) == pytest.approx(1)


def check_components(job: JobUnderTest, edges: list[Edge]) -> None:
    found = run(job, edges, connected_components={})

    parts = networkx.connected_components(simple(edges))
    assert found == {vertex: min(part) for part in parts for vertex in part}


def check_shortest_paths(job: JobUnderTest, edges: list[Edge]) -> None:
    found = run(job, edges, weight=True, sssp={"from": 0})

    reached = networkx.single_source_dijkstra_path_length(directed(edges), 0)
    assert found == {vertex: reached.get(vertex) for vertex in directed(edges)}


def check_triangles(job: JobUnderTest, edges: list[Edge]) -> None:
    assert run(job, edges, triangles={}) == networkx.triangles(simple(edges))


def check_labels(job: JobUnderTest, edges: list[Edge], rounds: int = 3) -> None:
    found = run(job, edges, label_propagation={"max_iterations": rounds})

    neighbours: dict[Any, list[Any]] = defaultdict(list)
    for a, b, _ in edges:
        if a != b:
            neighbours[a].append(b)
            neighbours[b].append(a)
    labels = {vertex: vertex for vertex in directed(edges)}
    for _ in range(rounds):
        votes = {v: Counter(labels[n] for n in neighbours[v]) for v in labels}
        labels = {
            v: min(c, key=lambda one, c=c: (-c[one], one)) if c else labels[v]  # type: ignore[misc]
            for v, c in votes.items()
        }
    assert found == labels


CHECKS = [
    check_shortest_paths,
    *(
        pytest.param(check, marks=pytest.mark.long)
        for check in (check_page_rank, check_components, check_triangles, check_labels)
    ),
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_random_graph(job: JobUnderTest, check: Any) -> None:
    check(job, EDGES)


@pytest.mark.long
@pytest.mark.parametrize("edges", OTHERS)
@pytest.mark.parametrize("check", CHECKS)
def test_other_random_graphs(job: JobUnderTest, check: Any, edges: list[Edge]) -> None:
    check(job, edges)


@pytest.mark.long
def test_ids_may_be_texts(job: JobUnderTest) -> None:
    edges = as_text(EDGES)

    found = run(job, edges, kind="STRING", connected_components={})

    parts = networkx.connected_components(simple(edges, "lone"))
    assert found == {vertex: min(part) for part in parts for vertex in part}


@pytest.mark.long
@pytest.mark.parametrize(
    ("algorithm", "alone"),
    [
        ({"pagerank": {}}, 1.0),
        ({"connected_components": {}}, LONE),
        ({"sssp": {"from": LONE}}, 0.0),
        ({"label_propagation": {}}, LONE),
        ({"triangles": {}}, 0),
    ],
)
def test_a_graph_without_edges(job: JobUnderTest, algorithm: Row, alone: Any) -> None:
    assert run(job, [], **algorithm) == {LONE: alone}


@pytest.mark.long
def test_a_long_chain_takes_few_rounds(job: JobUnderTest) -> None:
    """Ids in random order, so that the smallest has to find its way through many others."""
    ids = list(range(300))
    random.Random(7).shuffle(ids)
    edges = [(a, b, 1.0) for a, b in itertools.pairwise(ids)]

    found = run(job, edges, connected_components={})

    assert set(found.values()) == {0, LONE}
    assert job.running is not None
    [loop] = job.running.regions[0].progress().loops
    assert loop.is_converged
    assert loop.iteration < 20


def test_a_vertex_update_finds_the_largest_reachable_value(job: JobUnderTest) -> None:
    update = {
        "initial": "id",
        "message": "value",
        "combine": "max(message)",
        "update": "greatest(value, coalesce(message, value))",
        "max_iterations": 50,
    }

    found = run(job, EDGES, vertex_update=update)

    graph = directed(EDGES)
    assert found == {v: max({v} | networkx.ancestors(graph, v)) for v in graph}


@pytest.mark.long
def test_a_vertex_update_can_be_page_rank(job: JobUnderTest) -> None:
    ring = [(n, (n * 3 + 1) % 7, 1.0) for n in range(7)] + [(n, (n + 2) % 7, 1.0) for n in range(7)]
    update = {
        "initial": "CAST(1 AS DOUBLE)",
        "message": "value / out_degree",
        "combine": "sum(message)",
        "update": "0.15 + 0.85 * coalesce(message, 0)",
        "max_iterations": 30,
    }
    casts = {**update, "update": f"CAST({update['update']} AS DOUBLE)"}

    found = run(job, ring, vertex_update=casts)

    graph = networkx.MultiDiGraph()
    graph.add_weighted_edges_from(ring)
    expected = _pagerank_python(graph, tol=1e-9)
    del found[LONE]
    assert found == pytest.approx({v: 7 * rank for v, rank in expected.items()}, abs=0.01)


@pytest.mark.parametrize(
    ("algorithm", "told"),
    [
        (
            {"vertex_update": {"initial": "1", "message": "nosuch", "combine": "max(message)"}},
            r"vertex_update.message: \[UNRESOLVED_COLUMN",
        ),
        (
            {
                "vertex_update": {
                    "initial": "1",
                    "message": "value * 1.5",
                    "combine": "max(message)",
                }
            },
            "update: gives DECIMAL.*, and initial gave INT: cast one",
        ),
        ({"sssp": {"from": 4711}}, "sssp.from: there is no vertex 4711"),
    ],
)
def test_what_does_not_fit_is_told(job: JobUnderTest, algorithm: Row, told: str) -> None:
    for given in algorithm.values():
        if "message" in given:
            given |= {"update": "coalesce(message, value)", "max_iterations": 5}

    with pytest.raises(InvalidVertex, match=told):
        run(job, EDGES[:5], **algorithm)


def test_a_negative_weight_is_a_failure(job: JobUnderTest) -> None:
    with pytest.raises(Exception, match="algorithm failed in round 0") as raised:
        run(job, [(0, 1, -2.0)], weight=True, sssp={"from": 0})

    assert "an edge has the w -2.0" in str(raised.value.__cause__)
