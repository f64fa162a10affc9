"""Every stateful operator keeps its state and its place through 2 → 4 → 1 → 3 subtasks.

Input comes all the while, out of order and partly too late. After each step the output is
what plain Python says, and every key in Spark's state is in the partition that the
key-group map says.

A new operator needs one entry in `OPERATORS`, and nothing else:

* `vertices`: its part of the graph, between the source `rows` and the sink;
* `states`: for each of its stateful operators, in Spark's order (from the sink, left
  first), the columns of Spark's state that are hashed, or none for state without a key; of a
  Python vertex the key group;
* `expected`: its results over the rows that were read, from `tests.support.oracle`.

Results are columns `n` and `total`: count, and sum of `v`. Rows that are found by `is_late`
come after the watermark has passed them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobmanager.core.ids import VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.key_groups import Layout, owner
from tests.integration.spark.buffered_window_operators import BUFFERED_WINDOWS
from tests.integration.spark.fed_files import files_source, put_file, wait_until_read
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink, second
from tests.integration.spark.relational_operators import RELATIONAL
from tests.integration.spark.test_savepoints import stop
from tests.support import oracle
from tests.support.oracle import Results

STEPS = (2, 4, 1, 3)
FILES_A_STEP = 2
ROWS_A_FILE = 25
SECONDS_A_FILE = 10
DELAY = timedelta(seconds=2)
AGGREGATES = {"n": "count(*)", "total": "sum(v)"}


@dataclass(frozen=True)
class Operator:
    name: str
    vertices: Sequence[Row]
    states: Sequence[str | None]
    expected: Callable[[list[Row]], Results]
    emits_once: bool = False
    """A result comes when its window is closed; otherwise with each change."""
    visible: Callable[[Results, datetime], Results] = oracle.closed
    """Of what comes once: what is there to be seen at a watermark."""
    beside: Sequence[Row] = ()
    """A sink called `late`, for the rows that come too late."""

    def __str__(self) -> str:
        return self.name

    @property
    def last(self) -> str:
        return str(self.vertices[-1]["id"])


def aggregate(name: str, *key: str, after: str = "rows") -> Row:
    return {
        "id": name,
        "op": "aggregate",
        "inputs": [after],
        "key": list(key),
        "aggregate": AGGREGATES,
    }


def window(name: str, kind: dict[str, str], *key: str) -> Row:
    return {**aggregate(name, *key), "op": "window", "time": "ts", "window": kind}


def code(op: str, name: str, after: str = "rows", **fields: Any) -> Row:
    return {
        "id": "code",
        "op": op,
        "inputs": [after],
        "key": ["k"],
        "function": f"tests.support.user_code:{name}",
        **fields,
    }


def seconds(n: int) -> timedelta:
    return timedelta(seconds=n)


TUMBLING = {"tumbling": "10s"}
SLIDING = {"sliding": "10s", "every": "5s"}
SESSION = {"session": "1500ms"}
GAP = timedelta(milliseconds=1500)

OPERATORS = [
    Operator(
        "aggregate by key",
        [aggregate("sums", "k")],
        ["key.k"],
        lambda rows: oracle.sums(rows, "k"),
    ),
    Operator(
        "aggregate by two keys",
        [aggregate("sums", "k", "g")],
        ["key.k, key.g"],
        lambda rows: oracle.sums(rows, "k", "g"),
    ),
    Operator(
        "aggregate without a key",
        [aggregate("sums")],
        [None],
        lambda rows: oracle.sums(rows),
    ),
    Operator(
        "aggregates with and without a key behind one sink",
        [
            aggregate("sums", "k"),
            aggregate("all"),
            {"id": "named", "op": "map", "inputs": ["all"], "add": {"k": "'all'"}},
            {"id": "both", "op": "union", "inputs": ["sums", "named"]},
        ],
        ["key.k", None],
        lambda rows: oracle.sums(rows, "k") | {("all",): oracle.sums(rows)[()]},
    ),
    Operator(
        "tumbling windows",
        [window("windows", TUMBLING, "k")],
        ["key.window, key.k"],
        lambda rows: oracle.windows(rows, seconds(10), seconds(10), "k"),
        emits_once=True,
    ),
    Operator(
        "tumbling windows without a key",
        [window("windows", TUMBLING)],
        ["key.window"],
        lambda rows: oracle.windows(rows, seconds(10), seconds(10)),
        emits_once=True,
    ),
    Operator(
        "sliding windows",
        [window("windows", SLIDING, "k")],
        ["key.window, key.k"],
        lambda rows: oracle.windows(rows, seconds(10), seconds(5), "k"),
        emits_once=True,
    ),
    Operator(
        "sessions",
        [window("sessions", SESSION, "k")],
        ["key.k"],
        lambda rows: oracle.sessions(rows, GAP, "k"),
        emits_once=True,
    ),
    Operator(
        "sessions without a key",
        [window("sessions", SESSION)],
        ["key._groupingexpression"],
        lambda rows: oracle.sessions(rows, GAP),
        emits_once=True,
    ),
    Operator(
        "windows and sessions behind one sink",
        [
            window("wide", TUMBLING, "k"),
            window("sessions", SESSION, "k"),
            {"id": "both", "op": "union", "inputs": ["sessions", "wide"]},
        ],
        ["key.k", "key.window, key.k"],
        lambda rows: (
            oracle.sessions(rows, GAP, "k")
            | oracle.windows(rows, seconds(10), seconds(10), "k")
        ),
        emits_once=True,
    ),
    Operator(
        "process function with running sums",
        [code("process", "Sums", output="k STRING, n BIGINT, total BIGINT")],
        ["key.__headgate_group"],
        lambda rows: oracle.sums(rows, "k"),
    ),
    Operator(
        "process function with timers",
        [
            code(
                "process",
                "Tumbling",
                time="event",
                output="k STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT, "
                "total BIGINT",
            )
        ],
        ["key.__headgate_group"],
        lambda rows: oracle.windows(rows, seconds(10), seconds(10), "k"),
        emits_once=True,
    ),
    Operator(
        "reduce by a function",
        [
            {
                "id": "ones",
                "op": "map",
                "inputs": ["rows"],
                "select": {"k": "k", "n": "1L", "total": "v"},
            },
            code("reduce", "summed", "ones"),
        ],
        ["key.__headgate_group"],
        lambda rows: oracle.sums(rows, "k"),
    ),
]  # fmt: skip
OPERATORS += [Operator(**entry) for entry in [*RELATIONAL, *BUFFERED_WINDOWS]]
IN_CI = {"tumbling windows", "process function with timers"}
"""Spark's own state, and ours. The rest is run by `make chaos`."""


def rows_of(file: int) -> list[Row]:
    """Ten seconds of rows; of eleven keys three are none."""
    return [row_of(file, ROWS_A_FILE * file + n, n) for n in range(ROWS_A_FILE)]


def row_of(file: int, number: int, position: int) -> Row:
    key = number * 7 % 11
    return {
        "id": number,
        "k": f"key {key}" if key % 4 else None,
        "g": number % 3,
        "v": number * 37 % 101,
        "ts": moment_of(file, position).isoformat(),
    }


def moment_of(file: int, position: int) -> datetime:
    """Some rows are from just before the file began, and in later files one from long before."""
    begin = second(SECONDS_A_FILE * file)
    if position in (3, 17):
        return begin - DELAY
    if position == 20 and file >= 2:
        return second(-1000 + file)
    return begin + seconds(SECONDS_A_FILE) * position / ROWS_A_FILE


def is_late(row: Row) -> bool:
    return datetime.fromisoformat(row["ts"]) < second(-100)


def read(files: int) -> list[Row]:
    return [row for file in range(files) for row in rows_of(file)]


def feed(job: JobUnderTest, *files: int) -> None:
    for file in files:
        put_file(job.root / "in", file, rows_of(file))


def expected(operator: Operator, files: int, *, drained: bool = False) -> Results:
    """What there is to be seen after so many files."""
    rows = read(files)
    if not operator.emits_once:
        return operator.expected(rows)
    in_time = [row for row in rows if not is_late(row)]
    watermark = max(datetime.fromisoformat(row["ts"]) for row in in_time) - DELAY
    results = operator.expected(in_time)
    return results if drained else operator.visible(results, watermark)


def seen(operator: Operator, job: JobUnderTest) -> Results:
    """What a plain reader sees: the newest result of each key. Counts only grow."""
    found: Results = {}
    updates: Counter[tuple[Any, ...]] = Counter()
    for row in job.output():
        key = tuple(value for column, value in row.items() if column not in AGGREGATES)
        found[key] = max(found.get(key, (0, 0)), (row["n"], row["total"]))
        updates[key if operator.emits_once else (*key, row["n"])] += 1
    assert oracle.twice(updates.elements()) == []
    return found


def wait_for_results(operator: Operator, job: JobUnderTest, files: int) -> None:
    """The batch that emits what was closed comes after the one that read the last file."""
    wanted = expected(operator, files)
    try:
        job.wait(lambda: seen(operator, job) == wanted)
    finally:
        assert seen(operator, job) == wanted


def check_places(
    spark: SparkSession, operator: Operator, job: JobUnderTest, parallelism: int
) -> None:
    """Every key in state is where the key-group map says."""
    keyed = spark_order.keyed(job.graph, VertexId("out"))
    assert len(operator.states) == len(keyed)
    for number, (vertex, hashed) in enumerate(zip(keyed, operator.states, strict=True)):
        layout = job.graph.vertex(vertex).state_layout
        group = f"pmod(hash({hashed}), 12)" if hashed else "0"
        if layout is Layout.GROUPED:
            group = str(hashed)  # Spark's key is the key group
        is_join = job.state_operators()[vertex] == "symmetricHashJoin"
        found = []
        for side in [{"joinSide": "left"}, {"joinSide": "right"}] if is_join else [{}]:
            reader = spark.read.format("statestore").option("operatorId", number).options(**side)
            state = reader.load(job.spark_dir().as_uri())
            found += state.selectExpr("partition_id", f"{group} AS key_group").collect()
        assert found, f"{vertex} has no state"
        for row in found:
            assert row["partition_id"] == owner(layout, row["key_group"], parallelism)


@pytest.mark.parametrize(
    "operator",
    [pytest.param(one, marks=[] if one.name in IN_CI else [pytest.mark.long]) for one in OPERATORS],
    ids=str,
)
def test_rescaled(spark: SparkSession, job: JobUnderTest, operator: Operator) -> None:
    source = files_source(schema="id BIGINT, k STRING, g BIGINT, v BIGINT, ts TIMESTAMP")
    vertices = [source, *operator.vertices, files_sink(operator.last), *operator.beside]
    savepoint = None
    files = 0
    feed(job, files)
    for parallelism in STEPS:
        # When the job goes on with another number of subtasks, and there is more to read
        job.define(*vertices, parallelism=parallelism)
        job.start(savepoint=savepoint, base_attempt=job.attempt + 1)
        feed(job, *range(files + 1, files + FILES_A_STEP))
        files += FILES_A_STEP
        wait_until_read(job, files)
        # Then its results are those of an undisturbed run
        wait_for_results(operator, job, files)
        feed(job, files)  # while it stops
        stop(job, drain=False)
        # and every key is where it should be
        check_places(spark, operator, job, parallelism)
        savepoint = job.savepoint(f"at-{parallelism}")
    job.start(savepoint=savepoint, base_attempt=job.attempt + 1)
    wait_until_read(job, files + 1)
    stop(job, drain=True)
    assert seen(operator, job) == expected(operator, files + 1, drained=True)
    if operator.beside:
        late = [row["id"] for row in read(files + 1) if is_late(row)]
        assert sorted(row["id"] for row in job.output("late")) == late
