"""Several sinks behind one keyed vertex: one query, and each sink has its rows exactly once."""

import json
from collections import Counter

import pytest

from jobmanager.core.snapshots.layout import OUTPUTS
from taskrunner.spark.compile.compiler import InvalidVertex
from taskrunner.spark.run.region_query import QueryPhase
from tests.integration.spark.fed_files import (
    SUMS,
    feed,
    files_source,
    sums_after,
    wait_until_read,
)
from tests.integration.spark.jobs import OUT, JobUnderTest, Row, files_sink
from tests.support.oracle import twice

SMALL: Row = {"id": "small", "op": "filter", "inputs": ["sums"], "where": "n < 15"}
NAMED: Row = {"id": "named", "op": "map", "inputs": ["small"], "add": {"name": "upper(k)"}}


def vertices(path: str = "few/rows") -> list[Row]:
    return [
        files_source(),
        SUMS,
        SMALL,
        NAMED,
        files_sink("sums"),
        files_sink("named", id="few", path=path),
    ]


def updates(job: JobUnderTest, path: str = "out") -> list[tuple[str, int, int]]:
    return sorted((row["k"], row["n"], row["total"]) for row in job.output(path))


def check(job: JobUnderTest, files: int) -> None:
    every, few = updates(job), updates(job, "few/rows")
    newest = {key: max(u[1:] for u in every if u[0] == key) for key, *_ in every}
    assert newest == sums_after(files)
    assert few == [one for one in every if one[1] < 15]
    assert twice(every) == twice(few) == []
    assert {row["name"] for row in job.output("few/rows")} == {one[0].upper() for one in few}


def test_the_rows_are_computed_once_for_all_sinks(job: JobUnderTest) -> None:
    feed(job, 0, 2)
    job.define(*vertices()).start()
    wait_until_read(job, 3)

    assert job.running is not None
    assert [one.id for one in job.running.regions] == [OUT]
    check(job, 3)
    # and the state is there once, and restored and rescaled as any other
    assert list(job.state_operators()) == ["sums"]
    manifest = job.checkpoint(1)
    assert manifest.regions[OUT].sinks == ("out", "few")
    job.rescale(3)
    feed(job, 3, 4)
    wait_until_read(job, 5)
    check(job, 5)


def test_a_sink_that_fails_leaves_the_others_with_their_rows_once(job: JobUnderTest) -> None:
    # Given a sink that cannot write, behind one that can
    feed(job, 0, 0)
    (job.root / "few").mkdir()
    (job.root / "few" / "rows").write_text("in the way")
    job.define(*vertices()).start()
    (region,) = job.running.regions if job.running else []
    with pytest.raises((NotADirectoryError, FileExistsError)):
        job.wait(lambda: region.poll() is QueryPhase.FINISHED)
    written = Counter(updates(job))
    assert written
    # When it can
    (job.root / "few" / "rows").unlink()
    job.start()
    feed(job, 1, 1)
    wait_until_read(job, 2)
    # Then the batch that had failed is there once in both
    check(job, 2)
    assert written <= Counter(updates(job))


def test_a_fault_behind_the_shared_vertex_is_found_before_anything_runs(job: JobUnderTest) -> None:
    feed(job, 0, 0)
    broken = {**NAMED, "add": {"name": "upper(nosuch)"}}
    with pytest.raises(InvalidVertex, match=r"vertex named: .*nosuch"):
        job.define(*[broken if one is NAMED else one for one in vertices()]).start()


def test_rows_held_for_a_checkpoint_are_shown_by_every_sink(job: JobUnderTest) -> None:
    feed(job, 0, 0)
    held = [
        {**one, "visibility": "checkpoint"} if one["op"] == "sink" else one for one in vertices()
    ]
    job.define(*held).start()
    wait_until_read(job, 1)
    assert not updates(job)
    batch = job.checkpoint(1).regions[OUT].batch
    assert batch is not None
    assert job.running is not None
    for sink in job.running.held_sinks[OUT]:
        sink.show_up_to(batch)
    check(job, 1)
    assert json.loads(job.layout.work.read(OUTPUTS))[1]["sink"] == "few"
