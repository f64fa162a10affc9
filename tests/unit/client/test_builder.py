"""Graphs built in Python: the document they stand for, and the code that goes with them."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from jobmanager.client.builder import Environment, count, everything, session, tumbling
from jobmanager.client.errors import HeadgateError
from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document

_EXAMPLES = Path(__file__).parents[3] / "examples"


def _bids(env: Environment) -> Any:
    return env.source(
        "generator",
        rows_per_second=10,
        columns={"auction": "id % 3", "price": "id", "ts": "ts"},
        watermark=("ts", "5s"),
    )


def test_a_chain_is_the_document_it_reads_like() -> None:
    env = Environment("revenue", parallelism=2)
    (
        _bids(env)
        .filter("price > 100")
        .key_by("auction")
        .window(tumbling("10s"))
        .aggregate(revenue="sum(price)")
        .sink("files", format="parquet", path="out")
    )

    assert env.graph() == {
        "name": "revenue",
        "parallelism": 2,
        "vertices": [
            {
                "id": "generator",
                "op": "source",
                "connector": "generator",
                "rows_per_second": 10,
                "columns": {"auction": "id % 3", "price": "id", "ts": "ts"},
                "watermark": {"column": "ts", "delay": "5s"},
            },
            {"id": "filter", "op": "filter", "inputs": ["generator"], "where": "price > 100"},
            {
                "id": "window",
                "op": "window",
                "inputs": ["filter"],
                "key": ["auction"],
                "window": {"tumbling": "10s"},
                "aggregate": {"revenue": "sum(price)"},
            },
            {
                "id": "sink",
                "op": "sink",
                "inputs": ["window"],
                "connector": "files",
                "format": "parquet",
                "path": "out",
            },
        ],
    }
    env.check()


def test_ids_are_numbered_where_there_are_several_and_can_be_chosen() -> None:
    env = Environment("ids")
    bids = _bids(env)
    first, second = bids.filter("price > 1"), bids.filter("price > 2")
    chosen = bids.filter("price > 3", id="mine")
    first.union(second, chosen).sink("blackhole")

    assert [one["id"] for one in env.graph()["vertices"]] == [
        *("generator", "filter", "filter_2", "mine", "union", "sink")
    ]
    assert env.graph()["vertices"][4]["inputs"] == ["filter", "filter_2", "mine"]


def test_every_fault_that_needs_no_server_is_told_here() -> None:
    env = Environment("faulty", parallelism=7)
    _bids(env).filter("")

    with pytest.raises(InvalidJobGraph) as raised:
        env.check()

    assert {fault.field for fault in raised.value.faults} >= {"parallelism", "where", "vertices"}


def test_operators_with_other_shapes() -> None:
    env = Environment("shapes")
    bids, others = _bids(env), _bids(env)
    joined = bids.join(others, on=["auction"], within="10s", type="left")
    joined.flat_map("array(1, 2)", "n").distinct("auction", within="1m")
    late = bids.window(count(3, every=1), trigger={"count": 1}).aggregate(n="count(*)")
    late.late.sink("blackhole")
    bids.key_by("auction").window(everything(), evictor={"count": 5}).aggregate(n="count(*)")
    bids.shipped("rebalance").window(session("5s"), time="ts").aggregate(n="count(*)")

    found = {one["id"]: one for one in env.graph()["vertices"]}
    assert found["join"] == {
        "id": "join",
        "op": "join",
        "inputs": ["generator", "generator_2"],
        "left": "generator",
        "right": "generator_2",
        "type": "left",
        "on": ["auction"],
        "within": "10s",
    }
    assert found["flat_map"]["as"] == "n"
    assert found["window"]["trigger"] == {"count": 1}
    assert found["sink"]["inputs"] == [{"from": "window", "side": "late"}]
    assert found["window_2"]["window"] == {"global": True}
    assert found["window_3"]["inputs"] == [{"from": "generator", "ship": "rebalance"}]


def test_functions_are_named_and_their_files_go_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "single_module.py").write_text("def f(spark, rows): return rows\n")
    package = tmp_path / "a_package"
    (package / "inner").mkdir(parents=True)
    for directory in (package, package / "inner"):
        (directory / "__init__.py").write_text("def here(spark, rows): return rows\n")
    (package / "inner" / "deep.py").write_text("class C:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    single, deep, inner = (
        importlib.import_module(name)
        for name in ("single_module", "a_package.inner.deep", "a_package.inner")
    )
    env = Environment("code")
    bids = _bids(env)

    bids.spark(single.f, "x INT").python(inner.here, "x INT").key_by("x").process(deep.C, "x INT")
    bids.spark("installed_there:f", "x INT").python(importlib.import_module, "x INT")

    graph = env.graph()
    functions = [one["function"] for one in graph["vertices"] if "function" in one]
    assert functions == [
        *("single_module:f", "a_package.inner:here", "a_package.inner.deep:C"),
        *("installed_there:f", "importlib:import_module"),
    ]
    assert graph["artifacts"] == [str(tmp_path / "single_module.py"), str(package)]


def test_what_cannot_be_named_is_told() -> None:
    bids = _bids(Environment("code"))

    with pytest.raises(HeadgateError, match="define it at the top of its module"):
        bids.spark(lambda spark, rows: rows, "x INT")
    with pytest.raises(HeadgateError, match="neither a function nor a class"):
        bids.python(3, "x INT")


@pytest.mark.parametrize(
    "name", ["streaming_etl", "stream_analytics", "event_driven", "batch_report"]
)
def test_the_examples_are_sound_graphs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(_EXAMPLES))
    if name == "event_driven":
        pytest.importorskip("taskrunner.api")
    try:
        env = importlib.import_module(name).build()
    finally:
        sys.modules.pop(name, None)

    graph_document.parse(env.graph())
    uses_code = name in ("event_driven", "batch_report")
    assert env.graph().get("artifacts", []) == (
        [str(_EXAMPLES / f"{name}.py")] if uses_code else []
    )
