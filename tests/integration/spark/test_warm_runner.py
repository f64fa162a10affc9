"""A runner that is kept: the next attempt in the same process and the same JVM."""

import json
import signal
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from jobmanager.protocol.messages import Cancel, Exit, Heartbeat, Message
from tests.integration.spark.runner_process import (
    ROWS,
    Process,
    Site,
    a_graph,
    ids,
    restore_point,
)


def go_on(site: Site, runner: Process, attempt: int, graph: dict[str, Any], **fields: Any) -> None:
    """Stops the attempt before, keeps the runner, and gives it the next."""
    name = f"of-{attempt - 1}"
    runner.stop(attempt - 1, name, keep_runner=True)
    runner.report("stopped", "failed", attempt=attempt - 1)
    point = restore_point(site.root / "savepoints" / name)
    runner.run(attempt, graph, restore_point=point, base_attempt=attempt, **fields)


@pytest.mark.long  # tests/e2e/test_changes.py rescales in one JVM
def test_a_kept_runner_goes_on_at_another_parallelism_in_the_same_jvm(site: Site) -> None:
    # Given a runner whose attempt was stopped, and which was to stay
    runner = site.launch()
    runner.run(1, a_graph())
    runner.wait_for_output("raw", 10)
    jvms = runner.jvms()
    runner.stop(1, "one", keep_runner=True)
    runner.report("stopped", "failed")
    # When nothing has come yet, it lives and has no attempt
    assert next_heartbeat(runner).attempt is None
    # and when it is told to go on with twice as many subtasks
    point = restore_point(site.root / "savepoints/one")
    runner.run(2, a_graph(), parallelism=4, restore_point=point, base_attempt=2)
    runner.jobmanager.direct(site.job, 1, Cancel(grace_ms=0))  # which is late
    prepared = runner.report("prepared", "failed", attempt=2).body
    running = runner.report("running", "failed", attempt=2).body
    runner.report("finished", "failed", attempt=2)
    # Then Spark is the same, and each row was counted once
    assert len(jvms) == 1
    assert runner.jvms() == jvms
    assert prepared.event == "prepared"
    assert [(r.region, r.from_parallelism, r.to_parallelism) for r in prepared.repartitioned] == [
        ("out", 2, 4)
    ]
    assert running.event == "running"
    (why,) = [one.why for one in running.restored if one.region == "out"]
    assert why.endswith("its state was repartitioned from 2 to 4")
    assert runner.reports() == [
        (1, "prepared"),
        (1, "running"),
        (1, "stopped"),
        (2, "prepared"),
        (2, "running"),
        (2, "input_ended"),
        (2, "finished"),
    ]
    windows = pyarrow.dataset.dataset(site.root / "out").to_table().to_pylist()
    assert sum(w["n"] for w in windows) == ROWS
    assert sum(w["total"] for w in windows) == sum(range(ROWS))
    assert sorted(ids(site.root / "raw")) == list(range(ROWS))
    runner.jobmanager.direct(site.job, 2, Exit(reason="done"))
    assert runner.process.wait(120) == 0


def next_heartbeat(runner: Process) -> Heartbeat:
    said = len(runner.jobmanager.said)

    def find(message: Message) -> Heartbeat | None:
        is_new = message in runner.jobmanager.said[said:]
        return message if is_new and isinstance(message, Heartbeat) else None

    return runner.jobmanager.wait_for(find)


def nothing(**settings: str) -> dict[str, Any]:
    """A job that writes ids and a null, which is left out of JSON unless a setting says no."""
    source = {name: value for name, value in a_graph()["vertices"][0].items() if name != "rows"}
    columns = {"id": "id", "nothing": "cast(null AS STRING)"}
    selected = {"id": "selected", "op": "map", "inputs": ["orders"], "select": columns}
    sink = {**a_graph()["vertices"][3], "inputs": ["selected"], "visibility": "batch"}
    spark = {name.replace("_", "."): value for name, value in settings.items()}
    return a_graph(vertices=[source, selected, sink], spark=spark)


def has_nothing(directory: Path) -> dict[int, bool]:
    """Each row's id, and whether its null was written."""
    lines = [line for path in directory.iterdir() for line in path.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    assert len({row["id"] for row in rows}) == len(rows), "a row is there twice"
    return {row["id"]: "nothing" in row for row in rows}


@pytest.mark.long
def test_each_attempt_of_a_kept_runner_has_the_settings_of_its_own_graph(site: Site) -> None:
    raw = site.root / "raw"
    runner = site.launch()
    runner.run(1, nothing(spark_sql_jsonGenerator_ignoreNullFields="false"))
    runner.wait_for_output("raw", 10)
    jvms = runner.jvms()
    # When the next graph leaves a setting out, Spark goes back to its default
    go_on(site, runner, 2, nothing())
    before = has_nothing(raw)
    assert all(before.values())
    runner.wait_for_output("raw", 10, attempt=2)
    after = {row: has for row, has in has_nothing(raw).items() if row not in before}
    assert after
    assert not any(after.values())
    assert runner.jvms() == jvms
    # and when one differs that a session has for life, there is another JVM
    go_on(site, runner, 3, nothing(spark_ui_retainedJobs="7"))
    runner.wait_for_output("raw", 10, attempt=3)
    assert len(runner.jvms()) == 1
    assert runner.jvms() != jvms
    found = sorted(has_nothing(raw))
    assert found == list(range(len(found)))
    # and a signal ends a runner that waits
    runner.stop(3, "last", keep_runner=True)
    runner.report("stopped", "failed", attempt=3)
    runner.process.send_signal(signal.SIGTERM)
    assert runner.process.wait(120) == 0
    assert runner.reports()[-1] == (3, "stopped")


@pytest.mark.long
def test_a_kept_runner_whose_jvm_was_killed_starts_another(site: Site) -> None:
    runner = site.launch()
    runner.run(1, nothing())
    runner.wait_for_output("raw", 10)
    [jvm] = runner.jvms()
    runner.stop(1, "before", keep_runner=True)
    runner.report("stopped", "failed")
    jvm.kill()

    point = restore_point(site.root / "savepoints" / "before")
    runner.run(2, nothing(), restore_point=point, base_attempt=2)
    runner.wait_for_output("raw", 10, attempt=2)

    assert runner.reports()[-1] == (2, "running")
    found = sorted(has_nothing(site.root / "raw"))
    assert found == list(range(len(found)))


def test_a_job_that_is_cancelled_while_it_starts_starts_no_query(site: Site) -> None:
    runner = site.launch()
    runner.run(1, a_graph())
    runner.jobmanager.direct(site.job, 1, Cancel(grace_ms=60_000))

    body = runner.report("cancelled", "running", "failed").body
    runner.jobmanager.direct(site.job, 1, Exit(reason="done"))

    assert body.event == "cancelled"
    assert body.detail == "no query had started"
    assert runner.process.wait(120) == 0
    assert not (site.root / "out").exists()
