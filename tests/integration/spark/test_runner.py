"""The runner as a process, against a JobManager that a test directs."""

import signal
from uuid import uuid4

import psutil
import pyarrow.dataset
import pytest

from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.snapshots.manifest import from_json
from jobmanager.protocol.messages import (
    AttemptReport,
    AttemptStoppedReport,
    Cancel,
    CheckpointCompleted,
    CheckpointRef,
    Exit,
)
from tests.integration.spark.runner_process import (
    ROWS,
    ROWS_A_SECOND,
    Site,
    a_graph,
    ids,
    restore_point,
)


@pytest.mark.long
def test_a_job_whose_runner_is_killed_ends_with_every_row_once(site: Site) -> None:
    # Given a job with a completed checkpoint, whose runner is killed later
    first = site.launch()
    first.run(1, a_graph())
    first.wait_for_output("raw", 10)
    first.jobmanager.send_barrier(site.job, 1, 1)
    acks = first.acks()
    assert {(a.region, a.vertex, a.subtask) for a in acks.acks} == {
        ("out", "orders", 0),
        ("out", "counts", 0),
        ("out", "counts", 1),
        ("out", "out", 0),
        ("raw", "orders", 0),
        ("raw", "raw", 0),
    }
    first.jobmanager.direct(site.job, 1, CheckpointCompleted(checkpoint=1))
    # and has committed a batch after the checkpoint
    first.wait_for_output("raw", first.output_rows("raw") + 2 * ROWS_A_SECOND)
    jvms = first.jvms()
    assert jvms
    first.process.kill()
    # When the next attempt runs to the end
    second = site.launch()
    second.run(2, a_graph(), CheckpointRef(number=1, manifest=acks.manifest))
    running = second.report("running").body
    second.report("finished")
    second.jobmanager.direct(site.job, 2, Exit(reason="done"))
    assert second.process.wait(120) == 0
    # Then it started from what the first had, no JVM is left, and each row was counted once
    assert running.event == "running"
    assert {one.origin for one in running.restored} == {"attempt"}
    assert not psutil.wait_procs(jvms, timeout=60)[1]
    windows = pyarrow.dataset.dataset(site.root / "out").to_table().to_pylist()
    assert len({(w["k"], w["window_start"]) for w in windows}) == len(windows)
    assert sum(w["n"] for w in windows) == ROWS
    assert sum(w["total"] for w in windows) == sum(range(ROWS))
    assert sorted(ids(site.root / "raw")) == list(range(ROWS))


def test_a_cancelled_job_ends_after_its_batch_and_leaves_a_result(site: Site) -> None:
    runner = site.launch()
    runner.run(1, a_graph())
    runner.report("running")
    runner.jobmanager.direct(site.job, 1, Cancel(grace_ms=60_000))

    body = runner.report("cancelled", "failed", "finished").body
    runner.jobmanager.direct(site.job, 1, Exit(reason="done"))

    assert body.event == "cancelled"
    assert body.detail == "out ended after its batch; raw ended after its batch"
    assert runner.process.wait(120) == 0
    assert "Interrupted" not in (site.root / "runner.log").read_text()
    result = site.root / "storage" / "jobs" / site.job.hex / "attempts" / "1" / "result.json"
    assert AttemptReport.model_validate_json(result.read_text()).body == body


@pytest.mark.long
def test_a_job_that_was_stopped_goes_on_as_another_and_every_row_counts_once(site: Site) -> None:
    # Given a job that was stopped with a savepoint
    first = site.launch()
    first.run(1, a_graph())
    first.wait_for_output("raw", 10)
    savepoint = first.stop(1, "one")
    body = first.report("stopped", "failed").body
    first.jobmanager.direct(site.job, 1, Exit(reason="done"))
    assert body == AttemptStoppedReport(savepoint=savepoint.id)
    result = site.root / "storage" / "jobs" / site.job.hex / "attempts" / "1" / "result.json"
    assert AttemptReport.model_validate_json(result.read_text()).body == body
    batches = first.acks().batches
    manifest = from_json((site.root / "savepoints/one/manifest.json").read_text())
    assert manifest.savepoint is not None
    assert manifest.savepoint.graph == a_graph()
    given = min(ROWS, 10 * manifest.regions[RegionId("raw")].offsets[VertexId("orders")])
    assert len(ids(site.root / "raw")) == given, "what the savepoint covers is in sight"
    # When another job starts from it
    site.job = uuid4()
    second = site.launch()
    second.run(1, a_graph(), restore_point=restore_point(site.root / "savepoints/one"))
    running = second.report("running", "failed").body
    second.report("finished")
    second.jobmanager.direct(site.job, 1, Exit(reason="done"))
    # Then it goes on from there, and the two together have each row once
    assert running.event == "running"
    assert {one.region: one.batch for one in running.restored} == batches
    assert {one.origin for one in running.restored if one.batch is not None} == {"savepoint"}
    windows = pyarrow.dataset.dataset(site.root / "out").to_table().to_pylist()
    assert sum(w["n"] for w in windows) == ROWS
    assert sum(w["total"] for w in windows) == sum(range(ROWS))
    assert sorted(ids(site.root / "raw")) == list(range(ROWS))


def test_a_savepoint_that_is_not_whole_is_refused_before_spark_starts(site: Site) -> None:
    runner = site.launch()
    runner.run(1, a_graph(), restore_point=restore_point(site.root / "savepoints/none"))

    body = runner.report("running", "failed").body

    assert body.event == "failed"
    assert (body.failure.kind, body.failure.is_restartable) == ("invalid_job", False)
    assert body.failure.message.endswith("savepoints/none/manifest.json is missing")
    assert not psutil.Process(runner.process.pid).children()


@pytest.mark.long
def test_a_superseded_runner_ends_without_a_word(site: Site) -> None:
    runner = site.launch()
    runner.run(1, a_graph())
    runner.report("running")
    runner.jobmanager.superseded.add(1)

    assert runner.process.wait(120) == 0

    assert runner.reports() == [(1, "prepared"), (1, "running")]


@pytest.mark.long
def test_a_graph_that_spark_refuses_is_an_invalid_job(site: Site) -> None:
    runner = site.launch()
    graph = a_graph()
    graph["vertices"][1]["aggregate"] = {"n": "nosuch(k)"}
    runner.run(1, graph)

    body = runner.report("failed").body
    runner.process.send_signal(signal.SIGTERM)

    assert body.event == "failed"
    assert (body.failure.kind, body.failure.is_restartable) == ("invalid_job", False)
    assert body.failure.message.startswith(
        "InvalidVertex: vertex counts: aggregate.n: [UNRESOLVED_ROUTINE]"
    )
    assert runner.process.wait(120) == 0
