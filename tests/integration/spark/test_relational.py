"""flat_map, join, distinct, reduce and sql, against plain Python; connectors; Spark's own plan.

Streams are cut into batches of one file each, with rows out of order and rows too late.
"""

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.orc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceWriter,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)

from jobmanager.core.plan.job_plan import plan_of
from jobmanager.protocol.inspection import (
    AnswerBody,
    ListStates,
    Place,
    Question,
    QuestionBody,
    ReadRows,
    Rows,
    StateRef,
    StateRow,
    States,
)
from taskrunner.inspector.request_handler import RequestHandler
from taskrunner.spark.compile.compiler import Compiler, InvalidVertex
from tests.integration.spark.fed_files import files_source, wait_until_read
from tests.integration.spark.jobs import OUT, JobUnderTest, Row, files_sink, some_rows, table
from tests.integration.spark.relational_operators import OTHER, RELATIONAL, join, joined
from tests.integration.spark.test_rescale import (
    Operator,
    expected,
    feed,
    read,
    seen,
)
from tests.integration.spark.test_savepoints import stop
from tests.support import oracle
from tests.support.connector_jars import VARIABLE, installed_jars

FILES = 4
SOURCE = files_source(schema="id BIGINT, k STRING, g BIGINT, v BIGINT, ts TIMESTAMP")
STREAMED = [Operator(**entry) for entry in RELATIONAL]
IN_CI = ("distinct within a time", "sql windows")
NAMES: Row = {
    "id": "names",
    "op": "source",
    "connector": "table",
    "schema": "k STRING, name STRING",
    "rows": [{"k": f"key {n}", "name": f"name {n}"} for n in (1, 2, 3)]
    + [{"k": None, "name": "none"}],
}


def cases() -> Iterator[Any]:
    for operator in STREAMED:
        for parallelism in (1, 2, 3):
            in_ci = operator.name in IN_CI and parallelism == 2
            yield pytest.param(
                operator,
                parallelism,
                marks=[] if in_ci else [pytest.mark.long],
                id=f"{operator}, {parallelism} subtasks",
            )


@pytest.mark.parametrize(("operator", "parallelism"), list(cases()))
def test_streamed(job: JobUnderTest, operator: Operator, parallelism: int) -> None:
    job.define(SOURCE, *operator.vertices, files_sink(operator.last), parallelism=parallelism)
    feed(job, 0)
    job.start()
    for file in range(1, FILES):
        wait_until_read(job, file)
        feed(job, file)
    wait_until_read(job, FILES)
    stop(job, drain=True)

    assert seen(operator, job) == expected(operator, FILES, drained=True)


def batch(job: JobUnderTest, *vertices: Row, after: str) -> list[Row]:
    """What a batch job gives of the first two files."""
    feed(job, 0, 1)
    job.define(SOURCE, *vertices, files_sink(after), mode="batch").run()
    return job.output()


@pytest.mark.parametrize(
    "kind",
    [
        "full",
        *(
            pytest.param(one, marks=pytest.mark.long)
            for one in ("inner", "left", "right", "left_semi", "left_anti")
        ),
    ],
)
def test_a_batch_joins_as_a_stream_does(job: JobUnderTest, kind: str) -> None:
    rows = batch(job, *join(kind, within="5s"), after="named")

    found = {(r["id"], r["oid"], r["at"]): (r["n"], r["total"]) for r in rows}
    assert len(found) == len(rows)
    assert found == joined(kind)(read(2))


def test_a_batch_keeps_the_earliest_row_of_a_key(job: JobUnderTest) -> None:
    rows = batch(job, {"id": "d", "op": "distinct", "inputs": ["rows"], "key": ["k"]}, after="d")

    first: dict[Any, Row] = {}
    for row in sorted(read(2), key=lambda one: datetime.fromisoformat(one["ts"])):
        first.setdefault(row["k"], row)
    assert {r["k"]: r["id"] for r in rows} == {key: row["id"] for key, row in first.items()}


STATIC: dict[str, Callable[[Any], bool]] = {
    "inner": lambda k: k in ("key 1", "key 2", "key 3"),
    "left": lambda k: True,
    "left_semi": lambda k: k in ("key 1", "key 2", "key 3"),
    "left_anti": lambda k: k not in ("key 1", "key 2", "key 3"),
}


@pytest.mark.parametrize(
    "kind",
    [one if one == "left" else pytest.param(one, marks=pytest.mark.long) for one in STATIC],
)
def test_a_stream_joins_a_table_without_state(job: JobUnderTest, kind: str) -> None:
    vertex = {"id": "both", "op": "join", "inputs": ["rows", "names"], "on": ["k"], "type": kind}
    job.define(SOURCE, NAMES, vertex, files_sink("both"))
    feed(job, 0, 1)
    job.start()
    wait_until_read(job, 2)
    manifest = job.checkpoint(1)
    stop(job, drain=False)

    rows = job.output()
    assert sorted(r["id"] for r in rows) == [r["id"] for r in read(2) if STATIC[kind](r["k"])]
    if kind == "left":
        assert list(rows[0]) == ["k", "id", "g", "v", "ts", "name"]
        assert {r["k"]: r["name"] for r in rows if r["name"]} == {
            f"key {n}": f"name {n}" for n in (1, 2, 3)
        }
    assert set(manifest.regions[OUT].offsets) == {"rows"}
    assert manifest.regions[OUT].pointers == ()


def test_flat_map_gives_none_one_or_many_rows(job: JobUnderTest) -> None:
    rows = some_rows(20)
    words = {"id": "w", "op": "flat_map", "inputs": ["rows"], "keep": ["id"], "as": ["i", "x"],
             "explode": "map_from_arrays(sequence(0, v % 3), sequence(0, v % 3))"}  # fmt: skip
    few = {"id": "few", "op": "flat_map", "inputs": ["w"], "explode": "if(i = 1, null, array(x))",
           "as": "y"}  # fmt: skip
    job.define(table(rows), words, few, files_sink("few")).run()

    assert sorted((r["id"], r["i"], r["x"], r["y"]) for r in job.output()) == [
        (r["id"], n, n, n) for r in rows for n in range(r["v"] % 3 + 1) if n != 1
    ]


def test_empty_input_gives_nothing(job: JobUnderTest) -> None:
    job.define(table([], schema="id BIGINT, k STRING, g BIGINT, v BIGINT, ts TIMESTAMP"),
               *join("full", within="5s"), files_sink("named")).run()  # fmt: skip

    assert job.output() == []


@pytest.mark.parametrize(
    ("vertex", "told"),
    [
        (
            {"op": "join", "inputs": ["mine", "other"], "where": "nosuch = k"},
            r"vertex last: inputs: column 'k' is in 'mine' and in 'other'",
        ),
        (
            {"op": "join", "inputs": ["mine", "other"], "where": "nosuch = mine.k",
             "type": "left_semi", "within": "1s"},
            r"vertex last: where: \[UNRESOLVED_COLUMN",
        ),
        (
            {"op": "flat_map", "inputs": ["mine"], "explode": "v", "as": "x"},
            r"vertex last: explode: \[DATATYPE_MISMATCH",
        ),
        (
            {"op": "flat_map", "inputs": ["mine"], "explode": "array(", "as": "x"},
            r"vertex last: explode: \[PARSE_SYNTAX_ERROR",
        ),
        (
            {"op": "sql", "inputs": ["mine"], "query": "SELECT nosuch FROM mine"},
            r"vertex last: query: \[UNRESOLVED_COLUMN",
        ),
        (
            {"op": "sql", "inputs": ["mine"], "query": "SELECT * FROM theirs"},
            r"vertex last: query: \[TABLE_OR_VIEW_NOT_FOUND",
        ),
        (
            {"op": "sql", "inputs": ["other", "mine"],
             "query": "SELECT k FROM mine UNION ALL SELECT k FROM other"},
            "vertex last: inputs: the query reads its streams in another order: write mine, other",
        ),
        (
            {"op": "sql", "inputs": ["mine"],
             "query": "SELECT k FROM mine UNION ALL SELECT k FROM mine"},
            "vertex last: query: it reads the stream 'mine' twice",
        ),
        (
            {"op": "sql", "inputs": ["mine"], "query": "SELECT k FROM mine LIMIT 3"},
            "vertex last: query: it was taken to keep the state of none, and Spark keeps aggregate",
        ),
        (
            {"op": "sql", "inputs": ["mine"],
             "query": "WITH m AS (SELECT * FROM mine) SELECT k FROM m UNION ALL SELECT k FROM m"},
            "vertex last: query: in a stream a WITH query can be used once only",
        ),
    ],
)  # fmt: skip
def test_what_spark_refuses_names_vertex_and_field(
    job: JobUnderTest, spark: SparkSession, vertex: Row, told: str
) -> None:
    # `sql`: a vertex whose columns only Spark knows
    mine = {"id": "mine", "op": "sql", "inputs": ["rows"], "query": "SELECT id, k, v, ts FROM rows"}
    hidden = [mine, *OTHER] if "other" in vertex["inputs"] else [mine]
    job.define(SOURCE, *hidden, {"id": "last", **vertex}, files_sink("last"))
    feed(job, 0)

    with pytest.raises(InvalidVertex, match=told):
        job.start()
    assert spark.catalog.listTables() == []


def physical_plan(job: JobUnderTest) -> str:
    """Spark's physical plan of the region `out`, of a batch job."""
    plan = plan_of(job.graph)
    rows = Compiler(job.graph, job.graph.parallelism, _Rows(job.spark)).rows_of(plan.regions[0])
    frame: Any = rows._jdf
    return str(frame.queryExecution().sparkPlan().toString()) + str(
        frame.queryExecution().executedPlan().toString()
    )


class _Rows:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(self, source: Any, *, is_static: bool = False) -> Any:
        return self._spark.createDataFrame([], source.schema)


BIG = {**NAMES, "id": "big", "schema": "k STRING, size BIGINT", "rows": []}
SHIPS = [
    ({"op": "filter", "inputs": ["names"], "where": "name > 'a'"}, [], ["Exchange"]),
    (
        {"op": "filter", "inputs": [{"from": "names", "ship": "rebalance"}], "where": "name > 'a'"},
        ["RoundRobinPartitioning(2)"],
        [],
    ),
    (
        {"op": "filter", "inputs": ["names"], "where": "name > 'a'", "parallelism": 5},
        ["RoundRobinPartitioning(5)"],
        [],
    ),
    (
        {"op": "aggregate", "inputs": [{"from": "names", "ship": "hash"}], "key": ["k"],
         "aggregate": {"n": "count(*)"}},
        ["hashpartitioning(k"],
        [],
    ),
    (
        {"op": "join", "inputs": ["names", {"from": "big", "ship": "broadcast"}], "on": ["k"]},
        ["BroadcastHashJoin", "BuildRight"],
        ["SortMergeJoin"],
    ),
    (
        {"op": "join", "inputs": [{"from": "names", "ship": "broadcast"}, "big"], "on": ["k"]},
        ["BroadcastHashJoin", "BuildLeft"],
        ["SortMergeJoin"],
    ),
    (
        {"op": "join", "inputs": ["names", {"from": "big", "ship": "hash"}], "on": ["k"]},
        ["SortMergeJoin", "hashpartitioning(k"],
        ["BroadcastHashJoin"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("vertex", "there", "not_there"), SHIPS)
def test_ship_strategies_show_in_the_physical_plan(
    job: JobUnderTest, vertex: Row, there: list[str], not_there: list[str]
) -> None:
    tables = [NAMES, BIG] if vertex["op"] == "join" else [NAMES]
    job.define(*tables, {"id": "last", **vertex}, files_sink("last"), mode="batch")
    job.spark.conf.set("spark.sql.shuffle.partitions", "2")

    plan = physical_plan(job)

    assert [text for text in there if text not in plan] == []
    assert [text for text in not_there if text in plan] == []


def test_a_stream_meets_its_static_side_as_the_edge_says(job: JobUnderTest) -> None:
    vertex = {"id": "both", "op": "join", "on": ["k"]}
    found = {}
    for ship in ("broadcast", "hash"):
        inputs = ["rows", {"from": "names", "ship": ship}]
        job.define(table(some_rows(5)), NAMES, {**vertex, "inputs": inputs}, files_sink("both"))
        running = job.start()
        query: Any = running.regions[0]
        job.wait_for_commit(lambda log, batch: True)
        found[ship] = str(query.query._jsq.explainInternal(False))
        job.stop()
        job.lose_everything()

    assert "BroadcastHashJoin" in found["broadcast"]
    assert "SortMergeJoin" not in found["broadcast"]
    assert "SortMergeJoin" in found["hash"]


def test_orc_and_text_are_written_exactly_and_read_again(job: JobUnderTest) -> None:
    rows = some_rows(30)
    line = {"id": "line", "op": "map", "inputs": ["rows"], "select": {"text": "concat(id, ' ', k)"}}
    orc = {**files_sink("rows", format="orc", path="orc"), "id": "as_orc"}
    text = {**files_sink("line", format="text", path="text"), "id": "as_text"}
    job.define(table(rows), line, orc, text).run()

    files = sorted((job.root / "orc").glob("*.orc"))
    assert sorted(pyarrow.orc.read_table(one)["id"].to_pylist() for one in files) == [
        [row["id"] for row in rows]
    ]
    lines = [
        one for file in (job.root / "text").glob("*.txt") for one in file.read_text().splitlines()
    ]
    assert sorted(lines) == sorted(f"{row['id']} {row['k']}" for row in rows)

    again = JobUnderTest(job.spark, job.root)
    files_of = {"op": "source", "connector": "files"}
    again.define(
        {**files_of, "id": "o", "format": "orc", "path": "orc", "schema": "id BIGINT, k STRING"},
        {**files_of, "id": "t", "format": "text", "path": "text"},
        {"id": "m", "op": "map", "inputs": ["o"], "select": {"value": "concat(id, ' ', k)"}},
        {"id": "u", "op": "union", "inputs": ["m", "t"]},
        files_sink("u"),
        mode="batch",
    ).run()
    assert sorted(r["value"] for r in again.output()) == sorted(lines * 2)


@pytest.mark.skipif(not installed_jars(), reason=f"needs make jars, and {VARIABLE}")
def test_avro_is_written_exactly_and_read_again(job: JobUnderTest) -> None:
    rows = some_rows(30)
    job.define(table(rows), files_sink("rows", format="avro", path="avro")).run()

    again = JobUnderTest(job.spark, job.root)
    source = {"id": "a", "op": "source", "connector": "files", "format": "avro", "path": "avro",
              "schema": "id BIGINT, k STRING"}  # fmt: skip
    again.define(source, files_sink("a"), mode="batch").run()

    found = sorted((row["id"], row["k"]) for row in again.output())
    assert found == sorted((row["id"], row["k"]) for row in rows)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["complete", "update"])
def test_a_sink_is_given_what_its_mode_says(
    job: JobUnderTest, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = {"id": "sums", "op": "aggregate", "inputs": ["rows"], "key": ["k"],
            "aggregate": {"n": "count(*)"}}  # fmt: skip
    out = {"id": "out", "op": "sink", "inputs": ["sums"], "connector": "python", "mode": mode,
           "class": f"{__name__}:Lines", "options": {"path": str(job.root / "lines")}}  # fmt: skip
    (job.root / "lines").mkdir()
    job.define(SOURCE, sums, out)
    feed(job, 0)
    job.start()
    wait_until_read(job, 1)
    feed(job, 1)
    wait_until_read(job, 2)
    stop(job, drain=False)

    written = [json.loads(path.read_text()) for path in sorted((job.root / "lines").iterdir())]
    assert [(one["batch"], one["region"], one["overwrite"]) for one in written] == [
        ("0", "out", mode == "complete"),
        ("1", "out", mode == "complete"),
    ]
    assert dict(written[-1]["rows"]) == {
        key: count for (key,), (count, _) in oracle.sums(read(2), "k").items()
    }


def test_a_source_in_python_is_read_and_its_offsets_are_acked(job: JobUnderTest) -> None:
    source = {"id": "rows", "op": "source", "connector": "python", "class": f"{__name__}:Count",
              "options": {"step": 3}}  # fmt: skip
    job.define(source, files_sink("rows"))
    job.start()
    job.wait(lambda: len(job.output()) >= 9)
    stop(job, drain=False)
    manifest = job.checkpoint(1)

    ids = sorted(row["id"] for row in job.output())
    assert ids == list(range(len(ids)))
    assert manifest.regions[OUT].offsets == {"rows": {"at": len(ids)}}


def test_a_class_that_is_no_data_source_is_refused(job: JobUnderTest) -> None:
    source = {"id": "rows", "op": "source", "connector": "python", "class": "json:JSONDecoder"}
    with pytest.raises(InvalidVertex, match="vertex rows: class: json:JSONDecoder is no subclass"):
        job.define(source, files_sink("rows")).start()
    sink = {"id": "out", "op": "sink", "inputs": ["rows"], "connector": "python",
            "class": f"{__name__}:Count"}  # fmt: skip
    with pytest.raises(InvalidVertex, match=r"vertex out: class: .*:Count has no writer"):
        job.define(table([]), sink).start()


def test_lines_come_from_a_socket(job: JobUnderTest) -> None:
    with serving(["one", "two", "three"]) as port:
        source = {"id": "lines", "op": "source", "connector": "socket", "host": "127.0.0.1",
                  "port": port}  # fmt: skip
        job.define(source, files_sink("lines"))
        job.start()
        job.wait(lambda: len(job.output()) == 3)
        stop(job, drain=False)

    assert sorted(row["value"] for row in job.output()) == ["one", "three", "two"]
    assert job.checkpoint(1).regions[OUT].offsets == {"lines": 2}


@contextmanager
def serving(lines: list[str]) -> Iterator[int]:
    """A server that sends the lines to whoever connects, and then waits."""
    done = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write("".join(line + "\n" for line in lines).encode())
            done.wait(600)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            done.set()
            server.shutdown()


class Count(DataSource):
    """Numbers without end, so many in a batch."""

    def schema(self) -> str:
        return "id BIGINT"

    def simpleStreamReader(self, schema: Any) -> "SimpleDataSourceStreamReader":  # noqa: N802
        return _Counting(int(self.options["step"]))


class _Counting(SimpleDataSourceStreamReader):
    def __init__(self, step: int) -> None:
        self._step = step

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        end = start["at"] + self._step
        return iter([(n,) for n in range(start["at"], end)]), {"at": end}

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int]]:
        return iter([(n,) for n in range(start["at"], end["at"])])

    def commit(self, end: dict[str, int]) -> None:
        pass


class Lines(DataSource):
    """Writes each batch into a file, with what it was told."""

    def writer(self, schema: Any, overwrite: bool) -> "DataSourceWriter":
        return _Writing(dict(self.options), overwrite)


class _Writing(DataSourceWriter):
    def __init__(self, options: dict[str, str], overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _Written([list(row) for row in iterator])

    def commit(self, messages: list[Any]) -> None:
        batch = self._options["headgate.batch"]
        told = {
            "batch": batch,
            "region": self._options["headgate.region"],
            "overwrite": self._overwrite,
            "rows": [row for one in messages if one for row in one.rows],
        }
        (Path(self._options["path"]) / batch).write_text(json.dumps(told))


class _Written(WriterCommitMessage):
    def __init__(self, rows: list[list[Any]]) -> None:
        self.rows = rows


def test_the_state_of_a_join_is_read_by_side_and_key(job: JobUnderTest) -> None:
    rows = [{**row, "g": row["id"] % 3} for row in some_rows(30)]
    source = table(rows, schema="id BIGINT, k STRING, g BIGINT, v BIGINT, ts TIMESTAMP")
    questions = Questions(job, source, *join("inner", within="5s"))

    found = {(one.vertex, one.name): one for one in questions.states().states}

    assert set(found) == {("pairs", "left"), ("pairs", "right")}
    assert [one.name for one in found["pairs", "left"].key] == ["k"]
    assert [one.name for one in found["pairs", "right"].value][:3] == ["oid", "w", "ots"]
    left = questions.rows("pairs", "left", "k1")
    assert sorted(one.value["id"] for one in left) == [r["id"] for r in rows if r["k"] == "k1"]
    right = questions.rows("pairs", "right", "k1")
    assert sorted(one.value["oid"] for one in right) == [
        r["id"] for r in rows if r["k"] == "k1" and r["g"] == 0
    ]
    assert {one.key["k"] for one in [*left, *right]} == {"k1"}


def test_the_state_of_distinct_rows_is_their_keys(job: JobUnderTest) -> None:
    rows = some_rows(30)
    first = {"id": "first", "op": "distinct", "inputs": ["rows"], "key": ["k"], "within": "1h"}
    questions = Questions(job, table(rows), first)

    [state] = questions.states().states
    assert (state.vertex, state.name) == ("first", "default")
    found = questions.rows("first", "default", None)
    assert sorted(one.key["k"] for one in found) == sorted({row["k"] for row in rows})


class Questions:
    """Asks about the savepoint of a job that has read everything."""

    def __init__(self, job: JobUnderTest, *vertices: Row) -> None:
        job.define(*vertices, files_sink(vertices[-1]["id"]))
        job.start()
        # Without a look whether the source has given all its rows: the job is not to end.
        job.wait(lambda: job.log().last_committed() is not None)
        job.stop_at_boundary()
        root = job.savepoint().as_uri()
        self._place = Place(root=root, manifest="manifest.json", graph=job.document)
        self._handler = RequestHandler(job.spark, job.root / "scratch")

    def states(self) -> States:
        answer = self._ask(ListStates(place=self._place))
        assert isinstance(answer, States), answer
        return answer

    def rows(self, vertex: str, name: str, key: str | None) -> list[StateRow]:
        state = StateRef(region="out", vertex=vertex, name=name)
        answer = self._ask(ReadRows(place=self._place, state=state, key=key, limit=100))
        assert isinstance(answer, Rows), answer
        return answer.rows

    def _ask(self, body: QuestionBody) -> AnswerBody:
        return self._handler.answer(Question(id=1, within_ms=60_000, body=body))
