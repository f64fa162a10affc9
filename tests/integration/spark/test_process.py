"""Python vertices give what plain Python says, whatever the batches and the parallelism."""

from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from jobmanager.core.progress import AccumulatorValue
from jobmanager.protocol.inspection import Place, Question, ReadRows, Refusal, StateRef
from taskrunner.core.failures import classify
from taskrunner.inspector.request_handler import RequestHandler
from taskrunner.spark.compile import process_functions
from taskrunner.spark.run.causes import causes_of, stack_of
from tests.integration.spark.fed_files import files_source, wait_until_read
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink, some_rows, table
from tests.integration.spark.test_rescale import feed, is_late, read
from tests.integration.spark.test_savepoints import stop
from tests.support import oracle, stranger

FILES = 4
OUTPUT = "k STRING, n BIGINT, total BIGINT"
WINDOWS = "k STRING, window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT, total BIGINT"


def python_vertex(op: str, name: str, after: str = "rows", **fields: Any) -> Row:
    return {
        "id": "code",
        "op": op,
        "inputs": [after],
        "function": f"tests.support.user_code:{name}",
        **fields,
    }


def process(name: str, time: str = "none", output: str = OUTPUT) -> Row:
    return python_vertex("process", name, key=["k"], output=output, time=time)


def run_fed(job: JobUnderTest, vertex: Row, parallelism: int) -> list[Row]:
    """The output after some files, one a batch, out of order and partly late, and a drain."""
    source = files_source(schema="id BIGINT, k STRING, g BIGINT, v BIGINT, ts TIMESTAMP")
    feed(job, *range(FILES))
    job.define(source, vertex, files_sink("code"), parallelism=parallelism)
    job.start()
    wait_until_read(job, FILES)
    stop(job, drain=True)
    return job.output()


def tallies(job: JobUnderTest) -> dict[str, int | float]:
    assert job.running is not None
    [region] = job.running.regions
    found: dict[str, AccumulatorValue] = region.progress().accumulators.get("code", {})
    return {name: one.value for name, one in found.items()}


@pytest.mark.parametrize(
    "parallelism",
    [2, pytest.param(1, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)],
)
def test_windows_by_timers_are_those_of_plain_python(job: JobUnderTest, parallelism: int) -> None:
    found = run_fed(job, process("Tumbling", "event", WINDOWS), parallelism)

    in_time = [row for row in read(FILES) if not is_late(row)]
    ten = timedelta(seconds=10)
    assert {
        (r["k"], r["window_start"], r["window_end"]): (r["n"], r["total"]) for r in found
    } == oracle.windows(in_time, ten, ten, "k")
    assert len(found) == len(oracle.windows(in_time, ten, ten, "k"))
    assert tallies(job) == {"late": sum(map(is_late, read(FILES)))}


@pytest.mark.parametrize(
    "parallelism",
    [3, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)],
)
def test_running_sums_are_those_of_plain_python(job: JobUnderTest, parallelism: int) -> None:
    found = run_fed(job, process("Sums"), parallelism)

    rows = read(FILES)
    per_key = Counter(row["k"] for row in rows)
    assert Counter((r["k"], r["n"]) for r in found) == Counter(
        (key, n) for key, count in per_key.items() for n in range(1, count + 1)
    )
    for key, count in per_key.items():
        [last] = [r["total"] for r in found if (r["k"], r["n"]) == (key, count)]
        assert last == sum(row["v"] for row in rows if row["k"] == key)
    assert tallies(job) == {"rows": len(rows), "highest": max(row["v"] for row in rows)}


def test_processing_time_timers_fire_without_rows(job: JobUnderTest) -> None:
    source = files_source(schema="id BIGINT, k STRING, g BIGINT, v BIGINT, ts TIMESTAMP")
    feed(job, 0)
    job.define(source, process("Batches", "processing"), files_sink("code"))
    job.start()

    job.wait(lambda: sum(row["n"] for row in job.output()) == len(read(1)))

    assert sum(row["total"] for row in job.output()) == sum(row["v"] for row in read(1))


def test_a_reduce_function_keeps_one_row_a_key(job: JobUnderTest) -> None:
    found = run_fed(job, python_vertex("reduce", "newest", key=["k"]), 2)

    rows = read(FILES)
    for key in {row["k"] for row in rows}:
        mine = [row for row in rows if row["k"] == key]
        newest = max((one for one in found if one["k"] == key), key=lambda one: int(one["id"]))
        assert newest["id"] == max(row["id"] for row in mine)
        assert newest["v"] == sum(row["v"] for row in mine)
        assert newest["ts"] == datetime.fromisoformat(mine[-1]["ts"])


def test_a_python_function_takes_arrow_batches(job: JobUnderTest) -> None:
    output = "k STRING, double BIGINT, ts TIMESTAMP"

    found = run_fed(job, python_vertex("python", "doubled", output=output), 2)

    even = [row for row in read(FILES) if row["v"] % 2 == 0]
    assert Counter((one["k"], one["double"], one["ts"]) for one in found) == Counter(
        (row["k"], row["v"] * 2, datetime.fromisoformat(row["ts"])) for row in even
    )
    assert tallies(job) == {"dropped": len(read(FILES)) - len(even)}


def test_a_cogroup_has_all_rows_of_a_key_from_both_sides(job: JobUnderTest) -> None:
    left, right = some_rows(40), some_rows(30, first=20)
    other = [{"k": row["k"], "w": row["v"]} for row in right] + [{"k": None, "w": 5}]
    vertex = {
        **python_vertex("cogroup", "both_sides", key=["k"]),
        "inputs": ["rows", "others"],
        "output": "k STRING, lefts BIGINT, rights BIGINT, total BIGINT",
    }
    others = {**table(other, id="others", schema="k STRING, w BIGINT"), "watermark": None}
    job.define(table(left), others, vertex, files_sink("code"), mode="batch").run()

    keys = {row["k"] for row in left} | {row["k"] for row in other}
    assert {row["k"]: (row["lefts"], row["rights"], row["total"]) for row in job.output()} == {
        key: (
            sum(row["k"] == key for row in left),
            sum(row["k"] == key for row in other),
            sum(row["v"] for row in left if row["k"] == key)
            - sum(row["w"] for row in other if row["k"] == key),
        )
        for key in keys
    }
    assert tallies(job) == {"keys": len(keys)}


def test_a_batch_job_runs_a_process_function_to_the_end_of_time(job: JobUnderTest) -> None:
    rows = some_rows(200)

    vertex = process("Tumbling", "event", WINDOWS)
    job.define(table(rows), vertex, files_sink("code"), mode="batch").run()

    wanted = Counter((r["k"], datetime.fromisoformat(r["ts"]).timestamp() // 10) for r in rows)
    found = {(r["k"], r["window_start"].timestamp() / 10): r["n"] for r in job.output()}
    assert found == wanted


@pytest.mark.parametrize(
    ("vertex", "told"),
    [
        (
            process("Raising"),
            (
                "ValueError: thirteen is bad luck (in tests.support.user_code:Raising.process of "
                "vertex code, key 'k1')"
            ),
        ),
        (
            process("Misfit"),
            (
                "column 'n' of output is int64, and 'many' is not (given by "
                "tests.support.user_code:Misfit of vertex code)"
            ),
        ),
    ],
    ids=["raises", "wrong type"],
)
def test_a_function_that_fails_is_told_with_vertex_and_cause(
    job: JobUnderTest, vertex: Row, told: str
) -> None:
    rows = [{"id": n, "k": "k1", "v": 12 + n, "ts": "2026-01-01T00:00:00Z"} for n in range(3)]
    job.define(table(rows), vertex, files_sink("code"), mode="batch")

    with pytest.raises(Exception) as raised:  # noqa: PT011 — whatever Spark makes of it
        job.run()

    failure = classify(causes_of(raised.value), stack_of(raised.value), "out")
    assert failure.kind == "user_code"
    assert failure.message == told


def test_a_committed_batch_counts_once_over_attempts_and_a_step_back(job: JobUnderTest) -> None:
    source = files_source(schema="id BIGINT, k STRING, g BIGINT, v BIGINT, ts TIMESTAMP")
    job.define(source, process("Sums"), files_sink("code"))
    feed(job, 0, 1)
    job.start()
    wait_until_read(job, 2)
    job.stop_at_boundary()
    savepoint = job.savepoint()
    job.start()
    feed(job, 2)
    wait_until_read(job, 3)
    job.stop()
    assert tallies(job)["rows"] == len(read(3))
    # When the job goes back to the savepoint, so do its sums, and the third file counts again
    job.start(savepoint=savepoint, base_attempt=job.attempt + 1)
    wait_until_read(job, 3)
    job.stop()

    assert tallies(job)["rows"] == len(read(3))


@pytest.mark.long  # the readers themselves are in tests/unit/taskrunner/test_plain_pickle.py
def test_code_in_the_state_of_a_stranger_is_run_neither_by_a_job_nor_by_the_inspector(
    job: JobUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its savepoint is whole and fits: only its state is not what Headgate would write."""
    marker = job.root / "marker"
    source = files_source(schema="id BIGINT, k STRING, g BIGINT, v BIGINT, ts TIMESTAMP")
    job.define(source, process("Sums"), files_sink("code"))
    feed(job, 0)
    with monkeypatch.context() as patched:
        operator = partial(stranger.strangers_operator, str(marker))
        patched.setattr(process_functions, "_process_operator", operator)
        job.start()
        wait_until_read(job, 1)
        job.stop_at_boundary()
    savepoint = job.savepoint()
    child = job.successor()
    feed(child, 1)

    child.start(savepoint=savepoint)
    with pytest.raises(Exception) as raised:  # noqa: PT011 — whatever Spark makes of it
        child.finish()
    place = Place(root=savepoint.as_uri(), manifest="manifest.json", graph=job.document)
    state = StateRef(region="out", vertex="code", name="default")
    handler = RequestHandler(job.spark, job.root / "scratch")
    answer = handler.answer(
        Question(id=1, within_ms=60_000, body=ReadRows(place=place, state=state))
    )

    failure = classify(causes_of(raised.value), stack_of(raised.value), "out")
    assert (failure.kind, failure.is_restartable) == ("invalid_job", False)
    assert "the state names posix.system, which is not plain data" in failure.message
    assert isinstance(answer, Refusal), answer
    assert answer.reason == "unreadable"
    assert "posix.system" in answer.message
    assert not marker.exists()
