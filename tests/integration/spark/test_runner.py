"""The runner as a process, against a JobManager that a test directs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
import pyarrow.dataset
import pytest

from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.manifest import from_json
from jobmanager.protocol.messages import (
    AttemptReport,
    AttemptStopped,
    BarrierAcks,
    Cancel,
    CheckpointCompleted,
    CheckpointRef,
    Exit,
    Heartbeat,
    Message,
    RestorePoint,
    Run,
    SavepointTarget,
    Stop,
)
from tests.integration.spark.scripted_jobmanager import TOKEN, ScriptedJobManager

REPOSITORY = Path(__file__).parents[3]
ROWS = 160


def a_graph(**fields: Any) -> dict[str, Any]:
    """Windows over a bounded generator, and its rows themselves once checkpointed."""
    return {
        "name": "end to end",
        "parallelism": 2,
        "max_parallelism": 8,
        "vertices": [
            {
                "id": "orders",
                "op": "source",
                "connector": "generator",
                "rows_per_second": 10,
                "rows": ROWS,
                "columns": {"id": "id", "ts": "ts", "k": "id % 5"},
                "watermark": {"column": "ts", "delay": "1s"},
            },
            {
                "id": "counts",
                "op": "window",
                "inputs": ["orders"],
                "key": ["k"],
                "time": "ts",
                "window": {"tumbling": "2s"},
                "aggregate": {"n": "count(*)", "total": "sum(id)"},
            },
            {
                "id": "out",
                "op": "sink",
                "inputs": ["counts"],
                "connector": "files",
                "format": "parquet",
                "path": "out",
            },
            {
                "id": "raw",
                "op": "sink",
                "inputs": ["orders"],
                "connector": "files",
                "format": "json",
                "path": "raw",
                "visibility": "checkpoint",
            },
        ],
        **fields,
    }


class Process:
    """A runner process, told what to do through a JobManager of its own."""

    def __init__(self, root: Path, job: UUID) -> None:
        self.jobmanager = ScriptedJobManager()
        self.job = job
        self._root = root
        address = root / "address.json"
        address.write_text(json.dumps({"urls": [self.jobmanager.url]}))
        with (root / "runner.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "taskrunner", "--runner-id", str(uuid4())]
                + ["--address-file", str(address)],
                cwd=REPOSITORY,
                env={**os.environ, "HEADGATE_RUNNER_TOKEN": TOKEN},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def run(
        self,
        attempt: int,
        graph: dict[str, Any],
        checkpoint: CheckpointRef | None = None,
        restore_point: RestorePoint | None = None,
    ) -> None:
        body = Run(
            graph=graph,
            parallelism=2,
            spark_master="local[2]",
            storage=(self._root / "storage").as_uri(),
            data_root=str(self._root),
            checkpoint=checkpoint,
            restore_point=restore_point,
        )
        self.jobmanager.direct(self.job, attempt, body)

    def report(self, *events: str) -> AttemptReport:
        def find(message: Message) -> AttemptReport | None:
            wanted = isinstance(message, AttemptReport) and message.body.event in events
            return message if isinstance(message, AttemptReport) and wanted else None

        return self.jobmanager.wait_for(find, seconds=120)

    def acks(self) -> BarrierAcks:
        return self.jobmanager.wait_for(lambda m: m if isinstance(m, BarrierAcks) else None)

    def wait_for_output(self, region: str, rows: int) -> None:
        def find(message: Message) -> bool | None:
            regions = message.regions if isinstance(message, Heartbeat) else []
            return any(r.region == region and r.output_rows >= rows for r in regions) or None

        self.jobmanager.wait_for(find, seconds=120)

    def end(self) -> None:
        """Nothing of it is left, whatever the test did."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self.jobmanager.close()


class Site:
    """Where the processes of one test work."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.job = uuid4()
        self.processes: list[Process] = []

    def launch(self) -> Process:
        process = Process(self.root, self.job)
        self.processes.append(process)
        return process


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    for process in site.processes:
        process.end()


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
    time.sleep(1.3)
    children = psutil.Process(first.process.pid).children(recursive=True)
    jvms = [child for child in children if child.name() == "java"]
    assert jvms
    first.process.kill()
    # When the next attempt runs to the end
    second = site.launch()
    second.run(2, a_graph(), CheckpointRef(number=1, manifest=acks.manifest))
    running = second.report("running").body
    second.report("finished")
    second.jobmanager.direct(site.job, 2, Exit(reason="done"))
    assert second.process.wait(30) == 0
    # Then it started from what the first had, no JVM is left, and each row was counted once
    assert running.event == "running"
    assert {one.origin for one in running.restored} == {"attempt"}
    assert not any(jvm.is_running() for jvm in jvms)
    windows = pyarrow.dataset.dataset(site.root / "out").to_table().to_pylist()
    assert len({(w["k"], w["window_start"]) for w in windows}) == len(windows)
    assert sum(w["n"] for w in windows) == ROWS
    assert sum(w["total"] for w in windows) == sum(range(ROWS))
    assert sorted(_ids(site.root / "raw")) == list(range(ROWS))


def test_a_cancelled_job_ends_after_its_batch_and_leaves_a_result(site: Site) -> None:
    runner = site.launch()
    runner.run(1, a_graph())
    runner.report("running")
    runner.jobmanager.direct(site.job, 1, Cancel(grace_ms=60_000))

    body = runner.report("cancelled", "failed", "finished").body
    runner.jobmanager.direct(site.job, 1, Exit(reason="done"))

    assert body.event == "cancelled"
    assert body.detail == "out ended after its batch; raw ended after its batch"
    assert runner.process.wait(30) == 0
    result = site.root / "storage" / "jobs" / site.job.hex / "attempts" / "1" / "result.json"
    assert AttemptReport.model_validate_json(result.read_text()).body == body


def test_a_job_that_was_stopped_goes_on_as_another_and_every_row_counts_once(site: Site) -> None:
    # Given a job that was stopped with a savepoint
    first = site.launch()
    first.run(1, a_graph())
    first.wait_for_output("raw", 10)
    savepoint = SavepointTarget(id=uuid4(), directory=(site.root / "savepoints/one").as_uri())
    expires_at = datetime.now(UTC) + timedelta(minutes=2)
    stop = Stop(checkpoint=1, expires_at=expires_at, savepoint=savepoint, drain=False)
    first.jobmanager.direct(site.job, 1, stop)
    body = first.report("stopped", "failed").body
    first.jobmanager.direct(site.job, 1, Exit(reason="done"))
    assert body == AttemptStopped(savepoint=savepoint.id)
    result = site.root / "storage" / "jobs" / site.job.hex / "attempts" / "1" / "result.json"
    assert AttemptReport.model_validate_json(result.read_text()).body == body
    batches = first.acks().batches
    manifest = from_json((site.root / "savepoints/one/manifest.json").read_text())
    assert manifest.savepoint is not None
    assert manifest.savepoint.graph == a_graph()
    given = 10 * manifest.regions[RegionId("raw")].offsets[VertexId("orders")]
    assert len(_ids(site.root / "raw")) == given, "what the savepoint covers is in sight"
    # When another job starts from it
    site.job = uuid4()
    second = site.launch()
    second.run(1, a_graph(), restore_point=_restore_point(site.root / "savepoints/one"))
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
    assert sorted(_ids(site.root / "raw")) == list(range(ROWS))


def test_a_savepoint_that_is_not_whole_is_refused_before_spark_starts(site: Site) -> None:
    runner = site.launch()
    runner.run(1, a_graph(), restore_point=_restore_point(site.root / "savepoints/none"))

    body = runner.report("running", "failed").body

    assert body.event == "failed"
    assert (body.failure.kind, body.failure.is_restartable) == ("invalid_job", False)
    assert body.failure.message.endswith("savepoints/none/manifest.json is missing")
    assert not psutil.Process(runner.process.pid).children()


def _restore_point(directory: Path) -> RestorePoint:
    return RestorePoint(root=directory.as_uri(), manifest="manifest.json", name="savepoint one")


def _ids(directory: Path) -> list[int]:
    """The ids in the JSON files of a sink."""
    lines = [line for path in directory.iterdir() for line in path.read_text().splitlines()]
    return [json.loads(line)["id"] for line in lines]


def test_a_superseded_runner_ends_without_a_word(site: Site) -> None:
    runner = site.launch()
    runner.run(1, a_graph())
    runner.report("running")
    runner.jobmanager.superseded.add(1)

    assert runner.process.wait(60) == 0

    reports = [m for m in runner.jobmanager.said if isinstance(m, AttemptReport)]
    assert [report.body.event for report in reports] == ["running"]


def test_a_graph_that_spark_refuses_is_an_invalid_job(site: Site) -> None:
    runner = site.launch()
    graph = a_graph()
    graph["vertices"][1]["aggregate"] = {"n": "nosuch(k)"}
    runner.run(1, graph)

    body = runner.report("failed").body
    runner.process.send_signal(signal.SIGTERM)

    assert body.event == "failed"
    assert (body.failure.kind, body.failure.is_restartable) == ("invalid_job", False)
    assert body.failure.message.startswith("InvalidVertex: vertex counts: [UNRESOLVED_ROUTINE]")
    assert runner.process.wait(30) == 0
