"""A vertex on one line, as its user wrote it."""

from typing import Any

import pytest

from jobmanager.core.graph.vertex_text import text_of
from jobmanager.protocol.graph_text import parse_yaml


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (
            "{key: [auction], aggregate: {revenue: sum(price)}, window: {tumbling: 2s}}",
            "tumbling 2s, key: auction, revenue = sum(price)",
        ),
        (
            (
                "{op: window, key: [a, b], time: ts, window: {every: 5s, sliding: 10s}, "
                "aggregate: {n: count(*), top: max(price)}, allowed_lateness: 1m}"
            ),
            (
                "sliding 10s every 5s, key: (a, b), n = count(*), top = max(price), time: ts, "
                "allowed_lateness: 1m"
            ),
        ),
        (
            (
                "{key: [a], window: {global: true}, trigger: {delta: price, threshold: 2.5}, "
                "evictor: {count: 3}, function: 'mod:best', output: 'a INT'}"
            ),
            (
                "global, mod:best, key: a, trigger: delta price threshold 2.5, evictor: count 3, "
                "output: a INT"
            ),
        ),
        ("{op: filter, where: 'price > 10\n and x'}", "price > 10 and x"),
        ("{op: map, select: {a: a, b: a + 1}}", "a, b = a + 1"),
        ("{op: map, add: {b: a + 1}, drop: [x, y]}", "add: b = a + 1, drop: (x, y)"),
        ("{op: union, inputs: [a, b]}", ""),
        (
            "{op: join, type: left, on: [auction], within: 10s}",
            "type: left, on: auction, within: 10s",
        ),
        ("{op: sql, query: 'SELECT a\n  FROM b'}", "SELECT a FROM b"),
        (
            (
                "{connector: generator, rows_per_second: 5, columns: {ts: ts, a: id % 4}, "
                "watermark: {delay: 1s, column: ts}}"
            ),
            "generator, rows_per_second: 5, columns: ts, a = id % 4, watermark: column ts delay 1s",
        ),
        (
            "{op: source, connector: table, schema: a INT, rows: [{a: 1}, {a: 2}]}",
            "table, 2 rows, schema: a INT",
        ),
        (
            "{op: source, connector: files, format: csv, path: in, bounded: true, schema: a INT}",
            "files, format: csv, path: in, bounded: true, schema: a INT",
        ),
        (
            "{op: iterate, max_iterations: 9, body: [{id: one, op: map}, {id: two, op: filter}]}",
            "body: (one, two), max_iterations: 9",
        ),
        (
            "{op: graph, edges: links, algorithm: {pagerank: {damping: 0.85}}}",
            "pagerank (damping 0.85), edges: links",
        ),
        (
            "{op: ml, fit: rows, stages: [{standard_scaler: {}}, {k_means: {k: 4}}]}",
            "fit: rows, stages: (standard_scaler, k_means (k 4))",
        ),
    ],
)
def test_a_vertex_is_told_in_the_words_of_its_user(written: str, text: str) -> None:
    assert text_of(parse_yaml(written)) == text


def test_what_says_most_comes_first_in_whatever_order_it_was_written() -> None:
    vertex: dict[str, Any] = {"window": {"sliding": "9s", "every": "3s"}, "key": ["a"], "time": "t"}
    backwards = dict(reversed(vertex.items()))

    assert text_of(vertex) == text_of(backwards) == "sliding 9s every 3s, key: a, time: t"


def test_a_field_that_is_not_known_here_is_shown_with_its_name() -> None:
    assert text_of({"op": "cep", "pattern": {"next": "b"}, "skip": ["x"]}) == (
        "pattern: next b, skip: x"
    )


def test_what_the_page_shows_elsewhere_and_what_can_hold_a_password_is_left_out() -> None:
    vertex = {
        "id": "bids",
        "op": "source",
        "inputs": ["a"],
        "parallelism": 3,
        "options": {"password": "x"},
        "watermark": None,
    }

    assert text_of(vertex) == ""
