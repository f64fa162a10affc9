"""Windows in Python by key group, in streaming and batch jobs, against plain Python.

The input comes file by file, a file a batch, out of order and partly late. The oracle is told
the rows of each batch and computes the watermark itself: the latest time of the batches before,
less the delay.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from taskrunner.spark.compile.compiler import InvalidVertex
from tests.integration.spark.fed_files import files_source, put_file
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink, second, table
from tests.integration.spark.test_savepoints import stop

DELAY = 2
FILES = 5
Emitted = list[tuple[Any, ...]]


def test_the_published_example(job: JobUnderTest) -> None:
    """Values 1 to 6, a tumbling count window of 3."""
    rows = [{"id": n, "k": "a", "v": n, "ts": second(n).isoformat()} for n in range(1, 7)]
    job.define(
        table(rows),
        window({"count": 3}, aggregate={"total": "sum(v)", "values": "collect_list(v)"}),
        files_sink("windows"),
    ).run()

    assert sorted(job.output(), key=lambda row: row["pane"]) == [
        {"k": "a", "pane": 1, "total": 6, "values": [1, 2, 3]},
        {"k": "a", "pane": 2, "total": 15, "values": [4, 5, 6]},
    ]


def window(kind: Row, **fields: Any) -> Row:
    return {
        "id": "windows",
        "op": "window",
        "inputs": ["rows"],
        "key": ["k"],
        "window": kind,
        "aggregate": {"ids": "collect_list(id)", "total": "sum(v)"},
        **fields,
    }


def batch_of(file: int) -> list[Row]:
    """Rows of ten seconds, shuffled, one a little late, in later files one that is very late."""
    found = []
    for n in range(12):
        at = 10 * file + n * 7 % 12
        if n == 5:
            at = 10 * file - 5
        if n == 9 and file >= 3:
            at = 10 * file - 25
        key = None if n % 6 == 4 else f"k{(file + n) % 3}"
        found.append(
            {"id": 100 * file + n, "k": key, "v": n * 37 % 11, "ts": second(at).isoformat()}
        )
    return found


def time_of(row: Row) -> int:
    return round((datetime.fromisoformat(row["ts"]) - second(0)).total_seconds())


def batches() -> Iterator[tuple[float, list[Row]]]:
    """The watermark in each batch, and its rows in order; at last the end of time."""
    watermark = float("-inf")
    latest = float("-inf")
    for file in range(FILES):
        rows = sorted(batch_of(file), key=time_of)
        yield watermark, rows
        latest = max(latest, *(time_of(row) for row in rows))
        watermark = latest - DELAY
    yield watermark, []
    yield float("inf"), []


def fixed(size: int, every: int, lateness: int = 0) -> tuple[Emitted, list[int]]:
    windows: dict[tuple[Any, int], list[Row]] = defaultdict(list)
    emitted: set[tuple[Any, int]] = set()
    results: Emitted = []
    late: list[int] = []

    def emit(one: tuple[Any, int]) -> None:
        emitted.add(one)
        rows = windows[one]
        bounds = second(one[1]), second(one[1] + size)
        results.append((one[0], *bounds, [r["id"] for r in rows], sum(r["v"] for r in rows)))

    for watermark, rows in batches():
        for one in list(windows):
            if one[1] + size <= watermark and one not in emitted:
                emit(one)
        changed = {}
        for row in rows:
            at = time_of(row)
            starts = [s for s in range(-100, 200, every) if s <= at < s + size]
            in_time = [s for s in starts if s + size + lateness > watermark]
            if not in_time:
                late.append(row["id"])
            for start in in_time:
                windows[row["k"], start].append(row)
                if start + size <= watermark:
                    changed[row["k"], start] = True
        for one in changed:
            emit(one)
    return results, late


def in_panes(size: int, every: int) -> tuple[Emitted, list[int]]:
    seen: dict[Any, list[Row]] = defaultdict(list)
    results: Emitted = []
    for _, rows in batches():
        for row in rows:
            mine = seen[row["k"]]
            mine.append(row)
            if len(mine) % every == 0:
                last = mine[-size:]
                pane = len(mine) // every
                results.append((row["k"], pane, [r["id"] for r in last], sum(r["v"] for r in last)))
    return results, []


def by_delta(threshold: int, within: int) -> tuple[Emitted, list[int]]:
    """Emits when the id has moved; keeps the last seconds."""
    buffers: dict[Any, list[Row]] = defaultdict(list)
    marks: dict[Any, int] = {}
    panes: dict[Any, int] = defaultdict(int)
    results: Emitted = []
    for _, rows in batches():
        for row in rows:
            key = row["k"]
            buffers[key].append(row)
            if abs(row["id"] - marks.setdefault(key, row["id"])) > threshold:
                marks[key] = row["id"]
                latest = max(time_of(one) for one in buffers[key])
                buffers[key] = [one for one in buffers[key] if time_of(one) > latest - within]
                panes[key] += 1
                kept = buffers[key]
                results.append(
                    (key, panes[key], [r["id"] for r in kept], sum(r["v"] for r in kept))
                )
    return results, []


def sessions(gap: int, lateness: int) -> tuple[Emitted, list[int]]:
    found: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    results: Emitted = []
    late: list[int] = []

    def emit(key: Any, one: dict[str, Any]) -> None:
        one["emitted"] = True
        rows = one["rows"]
        bounds = second(one["start"]), second(one["end"])
        results.append((key, *bounds, [r["id"] for r in rows], sum(r["v"] for r in rows)))

    for watermark, rows in batches():
        for key in found:
            for one in found[key]:
                if one["end"] <= watermark and not one["emitted"]:
                    emit(key, one)
            found[key] = [one for one in found[key] if one["end"] + lateness > watermark]
        for row in rows:
            at, key = time_of(row), row["k"]
            near = [s for s in found[key] if s["start"] < at + gap and at < s["end"]]
            end = max([at + gap, *(s["end"] for s in near)])
            if end + lateness <= watermark:
                late.append(row["id"])
                continue
            one = {
                "start": min([at, *(s["start"] for s in near)]),
                "end": end,
                "rows": [r for s in near for r in s["rows"]] + [row],
                "emitted": False,
            }
            others = [s for s in found[key] if s not in near]
            found[key] = sorted([*others, one], key=lambda s: int(s["start"]))
        for key in found:
            for one in found[key]:
                if one["end"] <= watermark and not one["emitted"]:
                    emit(key, one)
    return results, late


@dataclass(frozen=True)
class Case:
    name: str
    fields: Row
    expected: Callable[[], tuple[Emitted, list[int]]]

    def __str__(self) -> str:
        return self.name


CASES = [
    Case("count", {"window": {"count": 3}}, lambda: in_panes(3, 3)),
    Case("sliding count", {"window": {"count": 5, "every": 2}}, lambda: in_panes(5, 2)),
    Case(
        "global, by count",
        {"window": {"global": True}, "trigger": {"count": 4}},
        lambda: in_panes(10**6, 4),
    ),
    Case(
        "global, by delta, some seconds kept",
        {
            "window": {"global": True},
            "trigger": {"delta": "id", "threshold": 5},
            "evictor": {"time": "8s"},
        },
        lambda: by_delta(5, 8),
    ),
    Case(
        "tumbling, late",
        {"window": {"tumbling": "5s"}, "allowed_lateness": "6s"},
        lambda: fixed(5, 5, 6),
    ),
    Case(
        "sliding, late",
        {"window": {"sliding": "10s", "every": "5s"}, "trigger": {"event_time": True}},
        lambda: fixed(10, 5),
    ),
    Case(
        "sessions, late",
        {"window": {"session": "3s"}, "allowed_lateness": "5s"},
        lambda: sessions(3, 5),
    ),
]
SOON = ("tumbling, late", "global, by delta, some seconds kept")


def marked() -> Sequence[Any]:
    """In CI two of them at two subtasks; all at 1, 2 and 3 by `make chaos`."""
    return [
        pytest.param(
            case,
            parallelism,
            id=f"{case.name.replace(' ', '-')}-at-{parallelism}",
            marks=() if parallelism == 2 and str(case) in SOON else pytest.mark.long,
        )
        for case in CASES
        for parallelism in (1, 2, 3)
    ]


def is_timed(case: Case) -> bool:
    return not {"count", "global"} & set(case.fields["window"])


def graph_of(case: Case, source: Row) -> list[Row]:
    vertices = [source, window({}, **case.fields), files_sink("windows")]
    if is_timed(case):
        late = {"from": "windows", "side": "late"}
        vertices.append(files_sink("windows", id="late", inputs=[late], path="late"))
    return vertices


def shown(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows), key=repr)


@pytest.mark.parametrize(("case", "parallelism"), marked())
def test_streamed(job: JobUnderTest, case: Case, parallelism: int) -> None:
    job.define(*graph_of(case, files_source()), parallelism=parallelism)
    for file in range(FILES):
        put_file(job.root / "in", file, batch_of(file))
    job.start()
    job.wait_for_commit(lambda log, batch: log.offsets(batch).offsets[0]["logOffset"] >= FILES - 1)
    stop(job, drain=True)

    results, late = case.expected()
    assert shown(job.output()) == sorted(results, key=repr)
    if is_timed(case):
        assert late, "the input has late rows"
        assert shown(job.output("late")) == shown(
            [
                {**row, "ts": datetime.fromisoformat(row["ts"])}
                for file in range(FILES)
                for row in batch_of(file)
                if row["id"] in late
            ]
        )


@pytest.mark.parametrize(
    "case", [pytest.param(one, id=str(one), marks=pytest.mark.long) for one in CASES]
)
def test_a_batch_job_gives_what_the_bounded_stream_gives(job: JobUnderTest, case: Case) -> None:
    rows = sorted((row for file in range(FILES) for row in batch_of(file)), key=time_of)
    job.define(*graph_of(case, table(rows)), mode="batch").run()
    streamed = JobUnderTest(job.spark, job.root / "streamed")
    streamed.define(*graph_of(case, table(rows))).run()

    assert job.output()
    assert shown(job.output()) == shown(streamed.output())
    assert job.output("late") == streamed.output("late") == []


def test_every_function_and_type_comes_out_as_spark_itself_has_it(job: JobUnderTest) -> None:
    """A buffered window beside Spark's own, over the same rows."""
    results = {
        "n": "count(*)",
        "present": "count(v)",
        "different": "count(DISTINCT v, k)",
        "large": "count(*) FILTER (WHERE v > 5)",
        "big": "sum(id * 4611686018427387 + v)",
        "share": "round(sum(v) / count(*), 3)",
        "cents": "sum(CAST(v AS DECIMAL(10,2)) / 7)",
        "mean_cents": "avg(CAST(v AS DECIMAL(10,2)))",
        "mean": "avg(v)",
        "spread": "round(stddev(v), 6)",
        "middle": "median(v)",
        "first_at": "min(ts)",
        "day": "max(CAST(ts AS DATE))",
        "best": "max_by(id, v * 1000 + id)",
        "name": "min_by(k, id)",
        "longest": "max(concat(k, v))",
        "any_large": "bool_or(v > 9)",
        "small": "min(CAST(v AS TINYINT))",
        "half": "max(CAST(v AS FLOAT) / 2)",
        "times": "array_sort(collect_list(ts))",
        "set": "array_sort(collect_set(v))",
        "pairs": "size(collect_list(struct(id, v)))",
    }
    rows = [row | {"v": None if row["id"] % 5 == 0 else row["v"]} for row in batch_of(0)]
    native = window({"tumbling": "1h"}, aggregate=results)
    job.define(
        table(rows),
        native,
        {**native, "id": "ours", "trigger": {"event_time": True}},
        files_sink("windows"),
        files_sink("ours", id="mine", path="mine"),
        mode="batch",  # in a stream Spark itself has no DISTINCT
    ).run()

    ours, theirs = job.output("mine"), job.output()
    assert len(ours) > 2
    assert schema_of(job, "mine") == schema_of(job, "out")
    assert shown(ours) == shown(theirs)


def schema_of(job: JobUnderTest, path: str) -> dict[str, str]:
    return dict(job.spark.read.parquet(str(job.root / path)).dtypes)


def most(window: Any, rows: list[Row]) -> Iterator[Row]:
    """A window function: the row with the greatest value, and how many there are."""
    best = max(rows, key=lambda row: (row["v"], row["id"]))
    yield {"k": window.key["k"], "until": window.end, "best": best["id"], "at": best["ts"]}
    yield {"k": window.key["k"], "until": window.end, "best": -len(rows)}


def test_a_function_over_the_rows_of_a_window(job: JobUnderTest) -> None:
    rows = batch_of(0)
    vertex = window(
        {"tumbling": "5s"},
        aggregate=None,
        function="tests.integration.spark.test_buffered_windows:most",
        output="k STRING, until TIMESTAMP, best BIGINT, at TIMESTAMP",
    )
    job.define(table(rows), vertex, files_sink("windows")).run()

    groups: dict[tuple[Any, int], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["k"], time_of(row) // 5 * 5 + 5].append(row)
    expected: Emitted = []
    for (key, end), members in groups.items():
        best = max(members, key=lambda row: (row["v"], row["id"]))
        expected.append((key, second(end), best["id"], second(time_of(best))))
        expected.append((key, second(end), -len(members), None))
    assert shown(job.output()) == sorted(expected, key=repr)


def test_by_processing_time_nothing_is_lost_at_the_end(job: JobUnderTest) -> None:
    trigger = {"processing_time": "1h"}
    job.define(
        table(batch_of(0)), window({"global": True}, trigger=trigger), files_sink("windows")
    ).run()

    by_key: dict[Any, list[Row]] = defaultdict(list)
    for row in sorted(batch_of(0), key=time_of):
        by_key[row["k"]].append(row)
    assert shown(job.output()) == sorted(
        ((k, 1, [r["id"] for r in rows], sum(r["v"] for r in rows)) for k, rows in by_key.items()),
        key=repr,
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"aggregate": {"x": "sum(nosuch)"}}, r"vertex windows: aggregate\.x: .*nosuch"),
        ({"aggregate": {"x": "sum(k)"}}, r"vertex windows: aggregate: 'sum\(k\)' is of a STRING"),
        (
            {"window": {"global": True}, "trigger": {"delta": "k", "threshold": 1}},
            "vertex windows: trigger.delta: 'k' is a STRING, not a number",
        ),
        ({"window": {"tumbling": "5s"}, "time": "v", "evictor": {"count": 1}}, "time: column 'v'"),
        (
            {"aggregate": None, "function": "nosuch:f", "output": "x INT"},
            "vertex windows: function: 'nosuch:f': module 'nosuch' cannot be imported",
        ),
    ],
)
def test_what_cannot_be_computed_is_told_with_the_vertex(
    job: JobUnderTest, fields: Row, told: str
) -> None:
    vertices = [table(batch_of(0)), window({"count": 2}) | fields, files_sink("windows")]

    with pytest.raises(InvalidVertex, match=told):
        job.define(*vertices).start()
