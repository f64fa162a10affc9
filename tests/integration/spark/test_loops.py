"""Loops inside of a batch job: rounds, convergence, lost rounds, cancellation."""

import math
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.spark.compile.loops import Frames, Judge, Keep, RoundVerdict, RunningLoops
from taskrunner.spark.run.region_query import QueryPhase
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink

START: Row = {
    "id": "guesses",
    "op": "source",
    "connector": "table",
    "schema": "n DOUBLE, guess DOUBLE, change DOUBLE",
    "rows": [{"n": float(n), "guess": 1.0, "change": 1.0} for n in range(1, 30)],
}
HERON: Row = {
    "id": "roots",
    "op": "iterate",
    "inputs": ["guesses"],
    "max_iterations": 50,
    "until": "max(change) < 1e-9",
    "body": [
        {"id": "better", "op": "map", "inputs": ["guesses"], "add": {"last": "guess"}},
        {"id": "next", "op": "map", "inputs": ["better"],
         "select": {"n": "n", "last": "last", "guess": "(guess + n / guess) / 2"}},
        {"id": "step", "op": "map", "inputs": ["next"],
         "select": {"n": "n", "guess": "guess", "change": "abs(guess - last)"}},
    ],
}  # fmt: skip
"""Square roots by Heron's method."""


def heron(n: float) -> tuple[float, int]:
    """The root, and the rounds that it takes."""
    guess, rounds, change = 1.0, 0, 1.0
    while not change < 1e-9:
        guess, last = (guess + n / guess) / 2, guess
        rounds, change = rounds + 1, abs(guess - last)
    return guess, rounds


def test_an_iterate_ends_when_it_has_converged(job: JobUnderTest) -> None:
    job.define(START, HERON, files_sink("roots"), mode="batch").run()

    found = {row["n"]: row["guess"] for row in job.output()}
    assert found == pytest.approx({float(n): math.sqrt(n) for n in range(1, 30)})
    assert job.running is not None
    [loop] = job.running.regions[0].progress().loops
    assert loop.iteration == max(heron(float(n))[1] for n in range(1, 30))
    assert (loop.is_converged, loop.is_running, loop.rows) == (True, False, 29)


COLLATZ_ROWS: list[Row] = [{"n": n, "x": n, "steps": 0} for n in range(1, 25)]
COLLATZ: Row = {
    "id": "collatz",
    "op": "delta_iterate",
    "inputs": ["numbers", "todo"],
    "key": ["n"],
    "max_iterations": 200,
    "delta": "moved",
    "workset": "unfinished",
    "body": [
        {"id": "moved", "op": "map", "inputs": ["todo"],
         "select": {"n": "n", "x": "if(x % 2 = 0, x div 2, 3 * x + 1)", "steps": "steps + 1"}},
        {"id": "unfinished", "op": "filter", "inputs": ["moved"], "where": "x > 1"},
    ],
}  # fmt: skip


def collatz_job(job: JobUnderTest, **changes: Any) -> JobUnderTest:
    table = {"op": "source", "connector": "table", "schema": "n BIGINT, x BIGINT, steps INT"}
    return job.define(
        {"id": "numbers", **table, "rows": COLLATZ_ROWS},
        {"id": "begun", "op": "filter", "inputs": ["numbers"], "where": "x > 1"},
        {"id": "todo", "op": "map", "inputs": ["begun"], "add": {"steps": "steps"}},
        {**COLLATZ, **changes},
        files_sink("collatz"),
        mode="batch",
    )


def collatz(n: int, most: int) -> tuple[int, int]:
    x, steps = n, 0
    while x > 1 and steps < most:
        x, steps = (x // 2 if x % 2 == 0 else 3 * x + 1), steps + 1
    return x, steps


@pytest.mark.parametrize("most", [5, pytest.param(200, marks=pytest.mark.long)])
def test_a_delta_iterate_ends_with_its_workset(job: JobUnderTest, most: int) -> None:
    collatz_job(job, max_iterations=most).run()

    found = {row["n"]: (row["x"], row["steps"]) for row in job.output()}
    assert found == {n: collatz(n, most) for n in range(1, 25)}


def test_a_delta_with_two_rows_for_a_key_is_told(job: JobUnderTest) -> None:
    twice = {"id": "moved", "op": "map", "inputs": ["todo"],
             "select": {"n": "n div 2", "x": "x", "steps": "steps"}}  # fmt: skip
    body = [twice, COLLATZ["body"][1]]

    with pytest.raises(
        InvalidVertex, match="vertex collatz: delta: moved gave 23 rows for 12 keys"
    ):
        collatz_job(job, body=body).run()


@pytest.mark.parametrize(
    ("select", "told"),
    [
        (
            {"n": "n", "guess": "guess"},
            "vertex roots/step: the result of a round must .*change is missing",
        ),
        (
            {"n": "n", "guess": "1", "change": "change"},
            "guess is INT and was DOUBLE: cast it",
        ),
        ({"n": "nosuch"}, r"vertex roots/step: select.n: \[UNRESOLVED_COLUMN"),
    ],
)
def test_a_body_that_does_not_fit_is_told_before_anything_runs(
    job: JobUnderTest, select: Row, told: str
) -> None:
    step = {**HERON["body"][0], "id": "step", "select": select, "add": None}

    with pytest.raises(InvalidVertex, match=told):
        job.define(START, {**HERON, "body": [step]}, files_sink("roots"), mode="batch").start()


class Counting:
    """A loop that adds 1 to its only row in each round."""

    def __init__(self, spark: SparkSession) -> None:
        self.start = spark.range(1).select(sql.lit(0).alias("x"))
        self.kept: list[DataFrame] = []

    def step(self, state: Frames, keep: Keep) -> tuple[Frames, Judge]:
        rows = keep(state[0].selectExpr("x + 1 AS x"))
        self.kept.append(rows)
        return (rows,), lambda: RoundVerdict(rows.count(), is_last=False)


def test_a_lost_round_is_computed_again_from_the_last_in_files(
    spark: SparkSession, tmp_path: Any
) -> None:
    loops, counting = RunningLoops(tmp_path, cut_every=4), Counting(spark)
    lost: list[Any] = []

    def step(state: Frames, keep: Keep) -> tuple[Frames, Judge]:
        if len(counting.kept) == 6 and not lost:
            # as if the executor that holds the rows of round 6 was gone
            lost.append(counting.kept[-1])
            lost[0]._jdf.queryExecution().analyzed().rdd().unpersist(True)
        return counting.step(state, keep)

    [rows] = loops.rounds("count", (counting.start,), step, 9)

    assert [row["x"] for row in rows.collect()] == [9]
    assert len(counting.kept) == 9 + 2, "rounds 5 and 6 ran twice"
    assert [one.name for one in (tmp_path / "count").iterdir()] == ["round-8"]
    loops.close()
    assert not tmp_path.exists()


def test_what_rounds_kept_is_let_go(spark: SparkSession, tmp_path: Any) -> None:
    def held() -> int:
        return int(spark.sparkContext._jsc.sc().getPersistentRDDs().size())

    loops, counting, before = RunningLoops(tmp_path, cut_every=100), Counting(spark), held()

    loops.rounds("count", (counting.start,), counting.step, 5)

    assert held() - before <= 1, "only the last round is held"
    loops.close()
    assert held() <= before


def test_a_cancelled_job_begins_no_other_round(job: JobUnderTest) -> None:
    never = {**HERON, "until": None, "max_iterations": 100_000}
    running = job.define(START, never, files_sink("roots"), mode="batch").start()
    [region] = running.regions
    job.wait(lambda: bool(region.progress().loops))

    region.stop()

    assert region.poll() is QueryPhase.STOPPED
    assert region.progress().loops[0].iteration < 100_000
    assert job.output() == []
