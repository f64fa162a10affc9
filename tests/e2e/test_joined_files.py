"""Small files become few before they are seen: real processes, kill -9, and a plain reader."""

from collections import Counter
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow.parquet
import pytest

from tests.e2e.test_exactly_once import a_bounded_job, kill_runner
from tests.e2e.test_savepoints import take
from tests.support.server import ServerProcess

ROWS = 4000
EXPECTED = sorted(n for n in range(ROWS) if n * 104_729 % 1000 + 1 > 100)


def a_job(path: str) -> dict[str, Any]:
    """The rows of the generator themselves, so that each batch has rows."""
    document = a_bounded_job(path)
    bids, big, _, out = document["vertices"]
    bids["rows"] = ROWS
    bids["columns"]["id"] = "id"
    joined = {"inputs": ["big"], "visibility": "checkpoint", "target_file_size": "1MB"}
    document["vertices"] = [bids, big, {**out, **joined}]
    document["checkpointing"] = {"interval": "3s"}
    return document


def ids(directory: Path) -> list[int]:
    """What a plain reader finds. A file may be withdrawn while it is about to be opened."""
    found: list[int] = []
    for path in sorted(directory.glob("*.parquet")):
        try:
            table = pyarrow.parquet.read_table(path, columns=["id"])
        except FileNotFoundError:
            continue
        found += table["id"].to_pylist()
    return sorted(found)


class Watch(Thread):
    """Reads all files again and again."""

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self.twice: list[int] = []
        self.looks = 0
        self._directory = directory
        self._end = Event()

    def run(self) -> None:
        while not self._end.wait(0.1):
            self.twice += [n for n, count in Counter(ids(self._directory)).items() if count > 1]
            self.looks += 1

    def end(self) -> None:
        self._end.set()
        self.join()


def log_lines(server: ServerProcess) -> list[str]:
    logs = (server.directory / "runners").rglob("runner.log*")
    lines = (line for one in logs for line in one.read_text().splitlines())
    return [line for line in lines if "join" in line]


@pytest.mark.long
def test_a_killed_job_and_its_successor_write_few_files_with_each_row_once(
    server: ServerProcess,
) -> None:
    output = server.directory / "data" / "joined"
    watch = Watch(output)
    watch.start()
    # Given a job of which a savepoint is taken, and whose runner is killed
    job = server.submit(a_job("joined"))
    server.until_checkpoint(job, 2)
    saved = take(server, job, "savepoints")["result"]
    kill_runner(server, job, 1, pause=1.5)
    # When it comes to its end
    server.until_state(job, "finished")
    # Then each row is there once, in fewer files than there were batches
    assert ids(output) == EXPECTED
    last = server.status(job)["last_checkpoint"]["number"]
    batches = server.get(f"/v1/jobs/{job}/checkpoints/{last}")["batch"]["out"] + 1
    names = sorted(path.name for path in output.glob("*.parquet"))
    assert len(names) < batches, (names, log_lines(server))
    # And when another job continues from the savepoint
    again = server.http.post(
        "/v1/jobs", params={"savepoint": saved["savepoint"]}, json=a_job("joined")
    ).json()["jobid"]
    server.until_state(again, "finished")
    watch.end()
    # Then it withdraws what came after the savepoint, and nothing else, and writes it again
    assert ids(output) == EXPECTED
    assert watch.looks > 10
    assert not watch.twice
    jobs = Counter(path.name.split("-")[0] for path in output.glob("*.parquet"))
    assert set(jobs) == {job, again}
