"""A new job graph tried on a savepoint: Spark's own word, and nothing is touched."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobmanager.protocol.inspection import Place, Question, Refusal, Tried, TriedRegion, TryGraph
from taskrunner.inspector.request_handler import RequestHandler
from tests.integration.spark.fed_files import SUMS, feed, files_source, wait_until_read
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink
from tests.support.renewed import Renewed, renewed

WINDOWS = {
    **SUMS,
    "id": "windows",
    "op": "window",
    "time": "ts",
    "window": {"tumbling": "10s"},
}
SECOND = files_sink("windows", id="more", path="more")


class Bench:
    """A savepoint of a job with two regions, and what is around it."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.job = JobUnderTest(spark, root)
        feed(self.job, 0, 1)
        self.job.define(files_source(), SUMS, WINDOWS, files_sink("sums"), SECOND)
        self.job.start()
        wait_until_read(self.job, 2)
        self.job.wait(lambda: self.job.log("more").last_committed() is not None)
        self.job.stop_at_boundary()
        self.savepoint = self.job.savepoint()
        self.job.stop()
        # If anything is read from now on it shows: these are no rows.
        (root / "in" / "poison.json").write_text("not a row\n")
        self.scratch = root / "scratch"
        self.handler = RequestHandler(spark, self.scratch)
        self.before = self.files()

    def files(self) -> dict[str, tuple[int, int]]:
        """Everything there is, but what Spark's maintenance may still add to the job."""
        kept = [self.savepoint, *(self.job.root / name for name in ("in", "out", "more"))]
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for directory in kept
            for path in directory.rglob("*")
            if path.is_file()
        }

    def try_graph(self, *vertices: Row, **fields: Any) -> Tried | Refusal:
        document = {**self.job.document, **fields}
        if vertices:
            document["vertices"] = list(vertices)
        place = Place(
            root=self.savepoint.as_uri(), manifest="manifest.json", graph=self.job.document
        )
        asked = TryGraph(place=place, graph=document, parallelism=2, data_root=str(self.job.root))
        answer = self.handler.answer(Question(id=1, within_ms=120_000, body=asked))
        assert isinstance(answer, Tried | Refusal), answer
        assert self.files() == self.before
        assert list((self.scratch / "trials").iterdir()) == []
        return answer

    def regions(self, *vertices: Row) -> dict[str, TriedRegion]:
        answer = self.try_graph(*vertices)
        assert isinstance(answer, Tried), answer
        return {one.region: one for one in answer.regions}


@pytest.fixture(scope="module")
def benches_in_turn(
    sessions_in_turn: Renewed[SparkSession], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Renewed[Bench]]:
    @contextmanager
    def make() -> Iterator[Bench]:
        yield Bench(sessions_in_turn.current, tmp_path_factory.mktemp("trial"))

    with renewed(make, lambda bench: bench.job.spark is sessions_in_turn.current) as shared:
        yield shared


@pytest.fixture
def bench(
    spark: SparkSession, benches_in_turn: Renewed[Bench], request: pytest.FixtureRequest
) -> Iterator[Bench]:
    with benches_in_turn.lent_to(request.node) as lent:
        yield lent


def summed(**changes: Any) -> Row:
    return {**SUMS, **changes}


def test_the_graph_as_it_was_is_accepted(bench: Bench) -> None:
    regions = bench.regions()
    assert [(one.accepted, one.is_new, one.error) for one in regions.values()] == [
        (True, False, None),
        (True, False, None),
    ]
    [sums] = regions["out"].states
    assert (sums.vertex, sums.name) == ("sums", "default")
    assert sums.old == sums.new
    assert sums.old is not None
    assert (sums.old.key, sums.old.value) == ("k STRING", "count BIGINT, sum BIGINT")


def test_what_changes_no_state_is_accepted(bench: Bench) -> None:
    regions = bench.regions(
        files_source(),
        {"id": "few", "op": "filter", "inputs": ["rows"], "where": "v > 3"},
        {"id": "more_v", "op": "map", "inputs": ["few"], "add": {"v": "v * 2"}},
        summed(inputs=["more_v"], aggregate={"counted": "count(*)", "summed": "sum(v)"}),
        {"id": "big", "op": "filter", "inputs": ["sums"], "where": "summed > 100"},
        files_sink("big", path="elsewhere"),
    )
    assert regions["out"].accepted, regions["out"].error
    assert not (bench.job.root / "elsewhere").exists()


def test_another_result_is_refused_in_the_words_of_spark(bench: Bench) -> None:
    more = {"n": "count(*)", "total": "sum(v)", "top": "max(v)"}
    regions = bench.regions(
        files_source(), summed(aggregate=more), WINDOWS, files_sink("sums"), SECOND
    )
    assert regions["more"].accepted
    out = regions["out"]
    assert (out.accepted, out.vertex) == (False, "sums")
    assert out.error is not None
    assert out.error.startswith("[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE]")
    assert "\n" not in out.error
    [change] = out.states
    assert change.old is not None
    assert change.new is not None
    assert change.old.value == "count BIGINT, sum BIGINT"
    assert change.new.value == "count BIGINT, sum BIGINT, max BIGINT"


def test_a_key_of_another_type_is_refused(bench: Bench) -> None:
    regions = bench.regions(
        files_source(),
        {"id": "longer", "op": "map", "inputs": ["rows"], "add": {"k": "length(k)"}},
        summed(inputs=["longer"]),
        files_sink("sums"),
    )
    out = regions["out"]
    assert not out.accepted
    assert out.error is not None
    assert out.error.startswith("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE]")
    [change] = out.states
    assert change.new is not None
    assert change.new.key == "k INT"


def test_another_operator_in_its_place_is_refused(bench: Bench) -> None:
    regions = bench.regions(
        files_source(), {**WINDOWS, "id": "sums", "window": {"session": "3s"}}, files_sink("sums")
    )
    assert not regions["out"].accepted
    assert regions["out"].error is not None
    assert "STATEFUL_OPERATOR_NOT_MATCH" in regions["out"].error


def test_a_region_that_drops_its_state_is_tried_without_it(bench: Bench) -> None:
    out = bench.regions(files_source(), files_sink("rows"))["out"]
    assert (out.accepted, out.drops_state) == (True, True)
    [change] = out.states
    assert (change.vertex, change.new) == ("sums", None)


def test_a_new_region_is_planned_and_its_faults_are_told_with_the_vertex(bench: Bench) -> None:
    fine = files_sink("fine", id="second", path="second")
    fault = files_sink("fault", id="third", path="third")
    regions = bench.regions(
        files_source(),
        SUMS,
        {**WINDOWS, "id": "fine", "window": {"session": "1s"}},
        {"id": "fault", "op": "filter", "inputs": ["rows"], "where": "nothing > 3"},
        files_sink("sums"),
        fine,
        fault,
    )
    assert (regions["second"].accepted, regions["second"].is_new) == (True, True)
    [change] = regions["second"].states
    assert (change.vertex, change.old) == ("fine", None)
    third = regions["third"]
    assert (third.accepted, third.is_new, third.vertex) == (False, True, "fault")
    assert third.error is not None
    assert "UNRESOLVED_COLUMN" in third.error
    assert regions["out"].accepted


def test_a_graph_that_cannot_be_tried_is_refused(bench: Bench) -> None:
    faulty = bench.try_graph(vertices=[])
    batch = bench.try_graph(files_source(watermark=None), files_sink("rows"), mode="batch")
    assert isinstance(faulty, Refusal)
    assert faulty.reason == "bad_graph"
    assert isinstance(batch, Refusal)
