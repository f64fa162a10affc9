from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.errors import Fault, InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connectors.generator import GeneratorSource
from jobmanager.core.graph.inputs import Ship
from jobmanager.core.graph.window_kinds import TumblingWindow
from jobmanager.core.graph.windows import Window
from jobmanager.core.ids import VertexId
from tests.support.builders import a_document, a_document_with


def faults_of(document: dict[str, Any]) -> list[Fault]:
    try:
        graph_document.parse(document)
    except InvalidJobGraph as error:
        return list(error.faults)
    return []


def the_fault(document: dict[str, Any]) -> str:
    """The one fault the document has."""
    faults = faults_of(document)
    assert len(faults) == 1, [str(fault) for fault in faults]
    return str(faults[0])


def a_source(vertex_id: str, **more: Any) -> dict[str, Any]:
    columns = {"k": "id", "ts": "ts"}
    base = {"id": vertex_id, "op": "source", "connector": "generator", "rows_per_second": 1}
    return {**base, "columns": columns, "watermark": {"column": "ts", "delay": "1s"}, **more}


def a_sink(*inputs: Any, vertex_id: str = "out") -> dict[str, Any]:
    return {"id": vertex_id, "op": "sink", "inputs": list(inputs), "connector": "blackhole"}


def test_a_sound_graph_is_read_with_its_defaults() -> None:
    graph = graph_document.parse(a_document())

    assert graph.max_parallelism == 720
    assert graph.checkpointing.interval.total_seconds() == 10
    assert isinstance(graph.vertices[0].connector, GeneratorSource)  # type: ignore[attr-defined]


def test_a_new_graph_has_a_bounded_number_of_levels_and_a_stored_graph_any() -> None:
    most, more = (levels(count) for count in (100, 101))

    graph_document.check_depth({"meta": most})
    with pytest.raises(InvalidJobGraph) as refused:
        graph_document.parse({"meta": more, "spark": levels(5_000)}, is_new=True)
    assert [str(one) for one in refused.value.faults] == [
        f"{field}: has more than 100 levels of mappings and lists" for field in ("meta", "spark")
    ]
    assert not any("levels" in str(one) for one in faults_of({"meta": more}))


def levels(count: int) -> Any:
    value: Any = 1
    for number in range(count):
        value = [value] if number % 2 else {"a": value}
    return value


def test_a_window_takes_its_time_column_from_the_watermark() -> None:
    window = graph_document.parse(a_document()).vertex(VertexId("revenue"))

    assert isinstance(window, Window)
    assert window.time == "ts"
    assert isinstance(window.window, TumblingWindow)


def test_five_faults_are_told_at_once() -> None:
    document = a_document(parallelism=7, nonsense=1)
    document["checkpointing"] = {"interval": "soon"}
    document["vertices"][1]["op"] = "fliter"
    document["vertices"][3]["format"] = "xml"

    told = [str(fault) for fault in faults_of(document)]

    assert len(told) == 5
    assert "parallelism: parallelism 7 does not divide max_parallelism 720" in told[0]
    assert "checkpointing.interval: 'soon' is not a duration" in told[1]
    assert "big.op: there is no operator 'fliter': did you mean 'filter'?" in told[2]
    assert "out.format: 'xml' is not one of parquet, json, csv" in told[3]
    assert told[4] == "nonsense: unknown field 'nonsense'"


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (a_document(name=None), "name: missing: a text is needed"),
        (a_document(mode="turbo"), "mode: 'turbo' is not one of streaming, batch"),
        (a_document(parallelism=0), "parallelism: 0 is not a whole number from 1 to 32768"),
        (a_document(parallelism=True), "parallelism: True is not a whole number from 1 to 32768"),
        (a_document(vertices=[]), "vertices: missing: a list of at least one source and one sink"),
        (a_document(spark={"a": 1}), "spark: 'a' is not a Spark setting"),
        (
            a_document(spark={"spark.sql.shuffle.partitions": 3}),
            "spark: 'spark.sql.shuffle.partitions' is set by Headgate",
        ),
        (
            a_document(spark={"spark.sql.streaming.stateStore.rocksdb.compression": "none"}),
            "spark: 'spark.sql.streaming.stateStore.rocksdb.compression' is set by Headgate",
        ),
        (
            a_document(spark={"spark.sql.streaming.join.stateFormatVersion": 4}),
            "join.stateFormatVersion' must be 2 or 3, since a rescale would lose rows",
        ),
        (
            a_document(spark={"spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "1g"}),
            "maxMemoryUsageMB' must be a positive number of megabytes, not '1g'",
        ),
        (
            a_document(spark={"spark.sql.streaming.stateStore.rocksdb.writeBufferCacheRatio": 2}),
            "writeBufferCacheRatio' must be a number from 0 to 1, not '2'",
        ),
        (a_document(artifacts="a.py"), "artifacts: 'a.py' is not a list of artifacts"),
        (a_document(restart={"strategy": "hope"}), "restart.strategy: 'hope' is not one of"),
        (a_document_with("bids", id="Bids!"), "Bids!.id: 'Bids!' is not an id"),
        (a_document_with("bids", rows_per_second=None), "bids.rows_per_second: missing"),
        (a_document_with("bids", schema="a INT"), "bids.schema: a generator's columns are its"),
        (
            a_document_with("bids", watermark={"column": "when", "delay": "1s"}),
            "bids.watermark.column: there is no column 'when', only auction, price, ts",
        ),
        (a_document_with("bids", watermark=None), "bids.watermark: missing: window 'revenue'"),
        (a_document_with("big", where=""), "big.where: '' is not a text"),
        (a_document_with("big", were="x"), "big.were: unknown field 'were': did you mean 'where'?"),
        (a_document_with("big", inputs=["nobody"]), "big.inputs: there is no vertex 'nobody'"),
        (a_document_with("big", inputs="bids"), "big.inputs: 'bids' is not a list of vertex ids"),
        (
            a_document_with("big", inputs=[{"from": "bids", "ship": "pigeon"}]),
            "big.inputs[0].ship: 'pigeon' is not one of forward, hash, rebalance, broadcast",
        ),
        (a_document_with("revenue", parallelism=4), "revenue.parallelism: a keyed vertex always"),
        (
            a_document_with("revenue", window={"count": 3, "every": 4}),
            "revenue.window.every: every is",
        ),
        (
            a_document_with("revenue", window={"sliding": "5s", "every": "10s"}),
            "revenue.window.every: every is",
        ),
        (
            a_document_with("revenue", aggregate={"auction": "count(*)"}),
            "revenue.aggregate: column 'auction' is already in the output",
        ),
        (
            a_document_with("revenue", trigger={"count": 0}),
            "revenue.trigger.count: 0 is not a whole number from 1",
        ),
        (a_document_with("out", connector="carrier"), "out.connector: 'carrier' is not a sink"),
        (a_document_with("out", path=None), "out.path: missing: a text is needed"),
    ],
)
def test_each_fault_names_the_vertex_the_field_and_the_way_out(
    document: dict[str, Any], told: str
) -> None:
    assert told in "\n".join(str(fault) for fault in faults_of(document))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("n" * 256, "name: 256 characters are too many: 255 at most"),
        ("two\nlines", "name: 'two\\nlines' contains control characters: leave them out"),
    ],
)
def test_a_new_graph_has_a_name_for_one_line_and_stored_names_are_still_read(
    name: str, told: str
) -> None:
    document = {**a_document(), "name": name}

    with pytest.raises(InvalidJobGraph) as raised:
        graph_document.parse(document, is_new=True)

    assert [str(fault) for fault in raised.value.faults] == [told]
    assert graph_document.parse(document).name == name


def test_a_cycle_is_told_once_with_its_way() -> None:
    document = a_document()
    document["vertices"] = [
        a_source("bids"),
        {"id": "a", "op": "union", "inputs": ["bids", "b"]},
        {"id": "b", "op": "filter", "inputs": ["a"], "where": "true"},
        a_sink("b"),
    ]

    assert the_fault(document) == "b.inputs: the graph has a cycle: b -> a -> b" or the_fault(
        document
    ) == ("a.inputs: the graph has a cycle: a -> b -> a")


def test_a_vertex_nobody_uses_is_a_fault() -> None:
    document = a_document()
    document["vertices"].append(a_source("more"))

    assert the_fault(document).startswith("more.id: nothing uses this vertex")


def test_an_aggregate_and_a_window_cannot_share_a_query() -> None:
    document = a_document()
    document["vertices"] = [
        a_source("bids"),
        {"id": "total", "op": "aggregate", "inputs": ["bids"], "aggregate": {"n": "count(*)"}},
        {
            "id": "late",
            "op": "window",
            "inputs": ["bids"],
            "window": {"tumbling": "1s"},
            "aggregate": {"n": "count(*)"},
        },
        {"id": "n", "op": "map", "inputs": ["late"], "select": {"n": "n"}},
        {"id": "both", "op": "union", "inputs": ["total", "n"]},
        a_sink("both"),
    ]

    assert "aggregate 'total' emits updates and window 'late' emits once" in the_fault(document)


def test_windows_of_windows_are_refused_before_spark_does() -> None:
    document = a_document()
    again = {**document["vertices"][2], "id": "again", "inputs": ["revenue"], "key": []}
    document["vertices"][3]["inputs"] = ["again"]
    document["vertices"].append(again)

    assert "the windows of 'revenue' carry no watermark" in the_fault(document)


def test_ship_strategies_are_read() -> None:
    graph = graph_document.parse(
        a_document_with("big", inputs=[{"from": "bids", "ship": "rebalance"}])
    )

    assert graph.vertex(VertexId("big")).inputs[0].ship is Ship.REBALANCE


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
PLACES = st.sampled_from(
    ["name", "mode", "parallelism", "max_parallelism", "checkpointing", "restart", "execution"]
    + ["spark", "artifacts", "vertices"]
)


@given(PLACES, JUNK)
def test_junk_anywhere_in_the_graph_is_a_fault_or_fine_but_never_a_crash(
    place: str, junk: Any
) -> None:
    faults_of(a_document(**{place: junk}))


@given(
    st.sampled_from(["bids", "big", "revenue", "out"]),
    st.sampled_from(
        ["op", "inputs", "connector", "columns", "watermark", "where", "key", "time", "window"]
        + ["aggregate", "format", "path", "partition_by", "visibility", "options", "parallelism"]
        + ["rows_per_second", "rows", "schema", "id"]
    ),
    JUNK,
)
def test_junk_anywhere_in_a_vertex_is_a_fault_or_fine_but_never_a_crash(
    vertex: str, field: str, junk: Any
) -> None:
    faults_of(a_document_with(vertex, **{field: junk}))


def test_a_job_may_bound_the_memory_of_its_state() -> None:
    rocksdb = "spark.sql.streaming.stateStore.rocksdb"
    graph = graph_document.parse(
        a_document(
            spark={
                f"{rocksdb}.boundedMemoryUsage": True,
                f"{rocksdb}.maxMemoryUsageMB": 300,
                f"{rocksdb}.writeBufferCacheRatio": 0.3,
                f"{rocksdb}.highPriorityPoolRatio": ".2",
            }
        )
    )
    assert graph.spark == {
        f"{rocksdb}.boundedMemoryUsage": "true",
        f"{rocksdb}.maxMemoryUsageMB": "300",
        f"{rocksdb}.writeBufferCacheRatio": "0.3",
        f"{rocksdb}.highPriorityPoolRatio": ".2",
    }
