"""A runner that no JobManager answers, with a sink that cannot be fenced."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

from tests.integration.spark.runner_process import Process, Site

FENCE_AFTER_MS = 4_000


class Lines(DataSource):
    """Appends a line to a file for each batch, with its attempt."""

    def writer(self, schema: Any, overwrite: bool) -> "DataSourceWriter":
        return _Appending(dict(self.options))


class _Appending(DataSourceWriter):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[Any]) -> None:
        attempt, batch = self._options["headgate.attempt"], self._options["headgate.batch"]
        with Path(self._options["file"]).open("a", encoding="utf-8") as lines:
            lines.write(f"{attempt} {batch}\n")


def a_graph(file: Path) -> dict[str, Any]:
    rows = {"connector": "generator", "rows_per_second": 20, "columns": {"id": "id"}}
    sink = {"connector": "python", "class": f"{__name__}:Lines", "options": {"file": str(file)}}
    return {
        "name": "cut off",
        "parallelism": 1,
        "max_parallelism": 1,
        "vertices": [
            {"id": "rows", "op": "source", **rows},
            {"id": "mails", "op": "sink", "inputs": ["rows"], **sink},
        ],
    }


def written(site: Site) -> list[int]:
    """The attempts of all batches, in the order in which they were written."""
    file = site.root / "lines"
    lines = file.read_text().splitlines() if file.exists() else []
    return [int(line.split()[0]) for line in lines]


def a_running_attempt(site: Site, attempt: int, fence_after_ms: int | None) -> Process:
    runner = site.launch()
    graph = a_graph(site.root / "lines")
    runner.run(attempt, graph, parallelism=1, fence_after_ms=fence_after_ms)
    runner.report("running", "failed")
    eventually(lambda: attempt in written(site))
    return runner


def eventually(is_so: Callable[[], bool], within: float = 90) -> None:
    deadline = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.1)


@pytest.mark.long
def test_a_runner_that_is_cut_off_stops_by_itself_and_says_so_later(site: Site) -> None:
    runner = a_running_attempt(site, 1, FENCE_AFTER_MS)
    before = len(written(site))
    runner.jobmanager.is_away = True
    eventually(lambda: '"after": "Ended"' in (site.root / "runner.log").read_text())
    when_stopped = written(site)
    runner.jobmanager.is_away = False

    body = runner.report("failed").body

    assert body.event == "failed"
    assert body.failure.is_restartable
    assert "no JobManager has answered for 4 s" in body.failure.message
    assert "'mails' cannot be fenced" in body.failure.message
    assert len(when_stopped) > before, "it worked on for a while"
    assert written(site) == when_stopped


@pytest.mark.long
@pytest.mark.parametrize("fence_after_ms", [FENCE_AFTER_MS, None], ids=["fence time", "epoch"])
def test_nothing_is_written_by_a_runner_after_its_successors_first_batch(
    site: Site, fence_after_ms: int | None
) -> None:
    """With a fence time the first runner has stopped long before. Without, the epoch that the
    second has raised stops it at its next batch.
    """
    first = a_running_attempt(site, 1, fence_after_ms)
    first.jobmanager.is_away = True
    if fence_after_ms is not None:
        eventually(lambda: '"after": "Ended"' in (site.root / "runner.log").read_text())
    a_running_attempt(site, 2, fence_after_ms)
    eventually(lambda: written(site).count(2) > 5)

    attempts = written(site)

    assert attempts == sorted(attempts), "the two wrote at the same time"


@pytest.mark.long
def test_a_runner_whose_sinks_are_fenced_works_through_the_outage(site: Site) -> None:
    runner = site.launch()
    graph = a_graph(site.root / "lines")
    graph["vertices"][1] = {
        "id": "mails",
        "op": "sink",
        "inputs": ["rows"],
        "connector": "files",
        "format": "json",
        "path": "out",
    }
    runner.run(1, graph, parallelism=1, fence_after_ms=1_000)
    runner.report("running")
    runner.wait_for_output("mails", 1)
    runner.jobmanager.is_away = True
    before = len(list((site.root / "out").iterdir()))
    eventually(lambda: len(list((site.root / "out").iterdir())) > before + 5)
    runner.jobmanager.is_away = False

    rows = runner.output_rows("mails")
    runner.wait_for_output("mails", rows + 1)

    assert runner.reports() == [(1, "prepared"), (1, "running")]
