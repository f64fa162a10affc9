"""flat_map, join, distinct, reduce, sql, sink modes and ship strategies: every fault by name."""

from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.inputs import Ship
from jobmanager.core.graph.joins import Join
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.sql_queries import Sql
from jobmanager.core.graph.sql_text import SqlState
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.job_plan import awaited, plan_of
from jobmanager.core.plan.key_groups import Layout
from jobmanager.core.plan.spark_order import keyed, sources

Document = dict[str, Any]


def stream(vertex_id: str, columns: str, **more: Any) -> Document:
    named = dict.fromkeys(columns.split(), "id")
    base = {"id": vertex_id, "op": "source", "connector": "generator", "rows_per_second": 1}
    return {**base, "columns": named, **more}


def timed(vertex_id: str, columns: str, time: str) -> Document:
    return stream(vertex_id, f"{columns} {time}", watermark={"column": time, "delay": "1s"})


def table(vertex_id: str, schema: str) -> Document:
    return {"id": vertex_id, "op": "source", "connector": "table", "rows": [], "schema": schema}


def sink(after: Any, **more: Any) -> Document:
    return {"id": "out", "op": "sink", "inputs": [after], "connector": "blackhole", **more}


def join(*inputs: Any, **more: Any) -> Document:
    return {"id": "both", "op": "join", "inputs": list(inputs), "on": ["k"], **more}


def aggregate(vertex_id: str, after: str, **more: Any) -> Document:
    base = {"id": vertex_id, "op": "aggregate", "inputs": [after], "key": ["k"]}
    return {**base, "aggregate": {"n": "count(*)"}, **more}


def window(vertex_id: str, after: str, kind: Document, **more: Any) -> Document:
    return {**aggregate(vertex_id, after), "op": "window", "window": kind, **more}


def sql(query: str, *inputs: str) -> Document:
    return {"id": "query", "op": "sql", "inputs": list(inputs), "query": query}


def document(*vertices: Document, **more: Any) -> Document:
    return {"name": "relational", "parallelism": 2, "vertices": list(vertices), **more}


def faults(*vertices: Document, **more: Any) -> list[str]:
    try:
        graph_document.parse(document(*vertices, **more))
    except InvalidJobGraph as error:
        return [str(fault) for fault in error.faults]
    return []


def settled(vertex_id: str, *vertices: Document, **more: Any) -> Vertex:
    return graph_document.parse(document(*vertices, **more)).vertex(VertexId(vertex_id))


A = timed("a", "k v", "ts")
B = timed("b", "k w", "at")
NAMES = table("names", "k BIGINT, name STRING")
FLAT = {"id": "flat", "op": "flat_map", "inputs": ["a"], "explode": "array(v)", "as": "x"}
DISTINCT = {"id": "first", "op": "distinct", "inputs": ["a"], "key": ["k"]}
SESSIONS = window("w", "a", {"session": "1s"}, time="ts")

FAULTS = [
    # flat_map
    ([A, {**FLAT, "as": None}, sink("flat")], "flat.as: missing: a list of columns is needed"),
    ([A, {**FLAT, "as": ["x", "y", "z"]}, sink("flat")], "flat.as: one name, or two"),
    ([A, {**FLAT, "explode": None}, sink("flat")], "flat.explode: missing: a text is needed"),
    ([A, {**FLAT, "keep": ["no"]}, sink("flat")], "flat.keep: there is no column 'no'"),
    ([A, {**FLAT, "keep": ["v"], "as": "v"}, sink("flat")], "flat.as: column 'v' is kept already"),
    ([A, {**FLAT, "as": "V"}, sink("flat")], "flat.as: column 'V' exists already"),
    # distinct
    ([A, {**DISTINCT, "key": None}, sink("first")], "first.key: missing: a list of columns"),
    ([A, {**DISTINCT, "key": []}, sink("first")], "first.key: a distinct needs at least one"),
    ([A, {**DISTINCT, "key": ["no"]}, sink("first")], "first.key: there is no column 'no'"),
    ([A, {**DISTINCT, "within": "soon"}, sink("first")], "first.within: 'soon' is not a duration"),
    ([A, {**DISTINCT, "parallelism": 1}, sink("first")], "first.parallelism: a keyed vertex"),
    (
        [stream("a", "k"), {**DISTINCT, "within": "1s"}, sink("first")],
        "a.watermark: missing: 'first' uses the event time of its rows",
    ),
    (
        [A, aggregate("n", "a"), {**DISTINCT, "inputs": ["n"], "within": "1s"}, sink("first")],
        "first.within: the results of 'n' carry no watermark: leave this field out",
    ),
    # reduce
    (
        [A, {**aggregate("r", "a", aggregate={"k": "sum(v)"}), "op": "reduce"}, sink("r")],
        "r.aggregate: column 'k' is already in the output",
    ),
    # join: its sides
    ([A, join("a"), sink("both")], "both.inputs: a join has two inputs, not 1"),
    ([A, B, join("a", "b", left="c"), sink("both")], "both.left: 'c' is not an input of this join"),
    ([A, B, join("a", "b", left="b"), sink("both")], "both.right: both sides are 'b'"),
    ([A, B, join("a", "b", on=None), sink("both")], "both.on: a join needs the columns of `on`"),
    ([A, B, join("a", "b", where="v = w"), sink("both")], "both.on: a join needs the columns"),
    ([A, B, join("a", "b", type="cross"), sink("both")], "both.type: 'cross' is not one of inner"),
    ([A, B, join("a", "b", on=["v"]), sink("both")], "both.on: of 'b': there is no column 'v'"),
    (
        [A, timed("b", "k V", "at"), join("a", "b"), sink("both")],
        "both.inputs: column 'v' is in 'a' and in 'b': rename or drop it in a map before",
    ),
    # join: what Spark cannot do
    (
        [A, B, join("a", "b", type="left"), sink("both")],
        "both.within: missing: a left join of two streams needs to know",
    ),
    (
        [A, B, join("a", "b", type="left_anti", within="1s"), sink("both")],
        "both.type: Spark has no left_anti join of two streams",
    ),
    (
        [A, stream("b", "k w"), join("a", "b", within="1s"), sink("both")],
        "b.watermark: missing: 'both' uses the event time of its rows",
    ),
    (
        [A, NAMES, join("a", "names", type="right"), sink("both")],
        "both.type: 'names' is static, so the right side's rows without a partner are not known",
    ),
    ([A, NAMES, join("a", "names", type="full"), sink("both")], "both.type: 'names' is static"),
    ([A, NAMES, join("names", "a", type="left"), sink("both")], "use one of inner, right"),
    (
        [A, B, join("a", "b", parallelism=1), sink("both")],
        "both.parallelism: a keyed vertex always has the job's parallelism",
    ),
    (
        [A, B, aggregate("n", "a"), join("n", "b"), sink("both")],
        "both.inputs: Spark cannot join the updates of 'n' with a stream",
    ),
    (
        [A, B, window("w", "a", {"tumbling": "1s"}, time="ts"), join("w", "b", within="1s"),
         sink("both")],
        "both.within: the results of 'w' carry no watermark",
    ),
    (
        [A, B, join("a", "b", type="left", within="1s"), aggregate("n", "both"), sink("n")],
        "out.inputs: aggregate 'n' emits updates and join 'both' waits for the watermark",
    ),
    # sources
    (
        [{"id": "a", "op": "source", "connector": "files", "format": "orc", "path": "in",
          "schema": "k INT", "bounded": True}, sink("a")],
        "a.bounded: in a stream only the static side of a join",
    ),
    (
        [{"id": "a", "op": "source", "connector": "files", "format": "orc", "path": "in",
          "schema": "k INT", "bounded": "yes"}, sink("a")],
        "a.bounded: 'yes' is not true or false",
    ),
    (
        [{"id": "a", "op": "source", "connector": "socket", "host": "h", "port": 70000}, sink("a")],
        "a.port: 70000 is not a whole number from 1 to 65535",
    ),
    (
        [{"id": "a", "op": "source", "connector": "socket", "host": "h", "port": 1,
          "schema": "v STRING"}, sink("a")],
        "a.schema: a socket gives lines in a column `value`",
    ),
    (
        [{"id": "a", "op": "source", "connector": "python", "class": "nowhere"}, sink("a")],
        "a.class: 'nowhere' is not of the form module:Class",
    ),
    ([A, sink("a", connector="python")], "out.class: missing: a text is needed"),
    (
        [table("a", "k INT, `odd name` INT") | {"watermark": {"column": "ts"}}, sink("a")],
        "a.watermark.column: there is no column 'ts', only k, odd name",
    ),
    # columns
    ([A, aggregate("n", "a", key=["no"]), sink("n")], "n.key: there is no column 'no'"),
    (
        [A, {"id": "m", "op": "map", "inputs": ["a"], "drop": ["no"]}, sink("m")],
        "m.drop: there is no column 'no', only k, v, ts",
    ),
    (
        [A, B, {"id": "u", "op": "union", "inputs": ["a", "b"]}, sink("u")],
        "u.inputs: 'a' and 'b' do not both have v, ts, w, at",
    ),
    (
        [A, sink("a", connector="files", format="text", path="out")],
        "out.format: format text writes a single column, but the input has 3 (k, v, ts)",
    ),
    (
        [A, sink("a", connector="files", format="orc", path="out", partition_by=["no"])],
        "out.partition_by: there is no column 'no'",
    ),
    # sink modes
    ([A, sink("a", mode="replace")], "out.mode: 'replace' is not one of append, update, complete"),
    ([A, aggregate("n", "a"), sink("n", mode="append")], "out.mode: the results of 'n' change"),
    ([A, sink("a", mode="complete")], "out.mode: only an aggregate or a window has a complete"),
    (
        [A, aggregate("n", "a"),
         sink("n", mode="complete", connector="files", format="orc", path="out")],
        "out.mode: files are added and never replaced",
    ),
    ([A, SESSIONS, sink("w", mode="update")], "out.mode: Spark has no updates of sessions ('w')"),
    (
        [A, B, join("a", "b", type="full", within="1s"), sink("both", mode="update")],
        "out.mode: Spark has no updates of a full join ('both'): use mode append",
    ),
    # ship strategies
    (
        [A, aggregate("n", "a", inputs=[{"from": "a", "ship": "rebalance"}]), sink("n")],
        "n.inputs: ship rebalance from 'a': a aggregate takes its rows by hash",
    ),
    (
        [A, sink({"from": "a", "ship": "hash"})],
        "out.inputs: ship hash from 'a': a sink has no key to hash",
    ),
    (
        [A, sink({"from": "a", "ship": "broadcast"})],
        "out.inputs: ship broadcast from 'a': only the static side of a join",
    ),
    (
        [A, sink({"from": "a", "ship": "forward"}, parallelism=1)],
        "out.inputs: ship forward from 'a': rows stay in their subtask",
    ),
    (
        [A, B, join("a", {"from": "b", "ship": "broadcast"}, within="1s"), sink("both")],
        "both.inputs: ship broadcast from 'b': a stream cannot be sent to every subtask",
    ),
    (
        [A, NAMES, join("a", {"from": "names", "ship": "rebalance"}), sink("both")],
        "both.inputs: ship rebalance from 'names': a static side is sent by broadcast, or by hash",
    ),
    # sql
    ([A, sql("", "a"), sink("query")], "query.query: '' is not a text"),
    (
        [A, sql("SELECT DISTINCT k FROM a", "a"), sink("query")],
        "query.query: in a stream SELECT DISTINCT emits a row each time",
    ),
    (
        [A, B, sql("SELECT k FROM a UNION SELECT k FROM b", "a", "b"), sink("query")],
        "query.query: in a stream UNION has to be UNION ALL",
    ),
    (
        [A, sql("SELECT k, sum(n) FROM (SELECT k, v, count(*) n FROM a GROUP BY k, v) GROUP BY k",
                "a"), sink("query")],
        "query.query: a query of a stream can keep state once",
    ),
    (
        [stream("a", "k ts"), sql("SELECT count(*) FROM a GROUP BY window(ts, '1 s')", "a"),
         sink("query")],
        "a.watermark: missing: 'query' uses the event time of its rows",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("vertices", "told"), FAULTS, ids=[told for _, told in FAULTS])
def test_a_fault_names_the_vertex_the_field_and_the_way_out(
    vertices: list[Document], told: str
) -> None:
    assert told in "\n".join(faults(*vertices))


def test_in_a_batch_nothing_waits_for_a_watermark() -> None:
    anti = join("a", "b", type="left_anti")
    assert faults(A, B, anti, sink("both"), mode="batch") == []
    full = join("a", "b", type="full")
    assert faults(A, B, full, sink("both"), mode="batch") == []


@pytest.mark.parametrize(
    ("vertices", "told"),
    [
        (
            [{"id": "a", "op": "source", "connector": "socket", "host": "h", "port": 1}, sink("a")],
            "a.connector: a socket never ends: a batch job cannot read it",
        ),
        (
            [A, aggregate("n", "a"), sink("n", mode="update")],
            "out.mode: a batch job writes its result once",
        ),
        (
            [A, B, join("a", {"from": "b", "ship": "broadcast"}, type="full"), sink("both")],
            "both.inputs: ship broadcast from 'b': in a full join this side cannot be sent",
        ),
    ],
)
def test_a_batch_has_faults_of_its_own(vertices: list[Document], told: str) -> None:
    assert (
        faults(*vertices, mode="batch")
        == [fault for fault in faults(*vertices, mode="batch") if told in fault]
        != []
    )


def test_the_left_side_is_the_one_that_says_so() -> None:
    found = settled("both", A, B, join("a", "b", left="b", right="a"), sink("both"))

    assert isinstance(found, Join)
    assert (found.left, found.right) == ("b", "a")


@pytest.mark.parametrize(
    ("vertices", "static"),
    [
        ([A, NAMES, join("a", "names")], "names"),
        ([A, NAMES, join("names", "a", type="right")], "names"),
        ([A, B, join("a", "b")], None),
        # two tables: the left one is the stream, unless its rows are those to be completed
        ([table("a", "k INT"), NAMES, join("a", "names")], "names"),
        ([table("a", "k INT"), NAMES, join("a", "names", type="right")], "a"),
        # with a time bound both are streams
        (
            [A, {**table("b", "k INT, at TIMESTAMP"), "watermark": {"column": "at"}},
             join("a", "b", within="1s")],
            None,
        ),
    ],
)  # fmt: skip
def test_without_a_time_bound_the_side_with_an_end_is_static(
    vertices: list[Document], static: str | None
) -> None:
    found = settled("both", *vertices, sink("both"))

    assert isinstance(found, Join)
    assert found.static == static


def test_a_static_side_has_no_offsets_no_state_and_no_acks() -> None:
    totals = aggregate("totals", "names")
    graph = graph_document.parse(
        document(A, NAMES, totals, join("a", "totals"), DISTINCT | {"inputs": ["both"]},
                 sink("first"))
    )  # fmt: skip
    region = plan_of(graph).regions[0]

    assert sources(graph, VertexId("out")) == ["a"]
    assert keyed(graph, VertexId("out")) == ["first"]
    assert region.keyed == ("first",)
    assert set(region.vertices) - set(region.streamed) == {"names", "totals"}
    assert {one.vertex for one in awaited(graph, 2)} == {"a", "first", "out"}


@pytest.mark.parametrize(
    ("static", "ships"),
    [
        ("names", {"a": Ship.FORWARD, "names": Ship.BROADCAST}),
        ({"from": "names", "ship": "hash"}, {"a": Ship.HASH, "names": Ship.HASH}),
    ],
)
def test_a_static_side_is_broadcast_unless_it_says_otherwise(
    static: Any, ships: dict[str, Ship]
) -> None:
    graph = graph_document.parse(document(A, NAMES, join("a", static), sink("both")))

    found = {edge.source: edge.ship for edge in plan_of(graph).edges if edge.target == "both"}
    assert found == ships


def test_a_join_of_streams_takes_both_by_hash_and_keeps_state() -> None:
    graph = graph_document.parse(document(A, B, join("a", "b"), sink("both")))

    assert keyed(graph, VertexId("out")) == ["both"]
    assert {edge.ship for edge in plan_of(graph).edges if edge.target == "both"} == {Ship.HASH}


@pytest.mark.parametrize(
    ("vertices", "mode"),
    [
        ([A, sink("a")], OutputMode.APPEND),
        ([A, aggregate("n", "a"), sink("n")], OutputMode.UPDATE),
        ([A, aggregate("n", "a"), sink("n", mode="complete")], OutputMode.COMPLETE),
        ([A, window("w", "a", {"tumbling": "1s"}), sink("w", mode="update")], OutputMode.UPDATE),
        ([A, sql("SELECT k, sum(v) s FROM a GROUP BY k", "a"), sink("query")], OutputMode.UPDATE),
        (
            [A, sql("SELECT sum(v) s FROM a GROUP BY window(ts, '1 s')", "a"), sink("query")],
            OutputMode.APPEND,
        ),
    ],
)
def test_the_mode_of_a_query_is_what_the_sink_says_or_the_operators(
    vertices: list[Document], mode: OutputMode
) -> None:
    graph = graph_document.parse(document(*vertices))

    assert plan_of(graph).regions[0].output_mode is mode


def test_sinks_of_two_modes_do_not_share_a_query() -> None:
    second = {**sink("n", mode="complete"), "id": "all"}
    graph = graph_document.parse(document(A, aggregate("n", "a"), sink("n"), second))

    modes = [region.output_mode for region in plan_of(graph).regions]
    assert modes == [OutputMode.UPDATE, OutputMode.COMPLETE]


def test_a_query_without_a_key_has_its_state_in_one_place() -> None:
    found = settled("query", A, sql("SELECT count(*) AS n FROM a", "a"), sink("query"))

    assert isinstance(found, Sql)
    assert found.state is SqlState.TOTAL
    assert found.state_layout is Layout.SINGLE


def test_a_query_joins_a_stream_with_a_table_without_state() -> None:
    query = "SELECT * FROM a JOIN names USING (k)"
    found = settled("query", A, NAMES, sql(query, "a", "names"), sink("query"))

    assert isinstance(found, Sql)
    assert (found.state, found.static) == (SqlState.NONE, ("names",))
