"""The cost of a killed leader: how long no server leads, and whether jobs are delayed.

    python -m bench.failover 3       # rounds

Two servers on one Postgres and one storage, and a running job. A round kills the leader with
SIGKILL. Reported are the seconds until the other server leads and until the next checkpoint is
complete, and the largest gap between two committed batches in the 20 seconds before the kill
and in the 20 seconds after it. The killed server starts again, and follows.
"""

import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.support import say, spark_checkpoint_dir, table
from jobmanager.store.embedded import EmbeddedPostgres
from tests.support.server import ServerProcess, eventually

_WINDOW = 20.0
_LONG = 600.0


def main(rounds: int) -> None:
    rows: list[list[object]] = []
    differences, ratios = [], []
    with two_servers() as (servers, storage):
        job = servers[0].submit(_document())
        servers[0].until_checkpoint(job, 1, within=_LONG)
        commits = Commits(spark_checkpoint_dir(storage, job, "out") / "commits")
        for number in range(rounds):
            leads, checkpoint, before, after = measure(servers, job, commits)
            differences.append(after - before)
            ratios.append(after / before)
            rows.append(
                [number + 1, *(f"{one:.2f}" for one in (leads, checkpoint, before, after))]
                + [f"{after - before:+.2f}", f"{after / before:.2f}"]
            )
            say(f"round {number + 1}: led after {leads:.2f} s")
        assert servers[0].status(job)["attempt"] == 1, "the job was restarted"
    names = ["next leader, s", "next checkpoint, s", "largest gap before, s", "after, s"]
    table(["round", *names, "difference, s", "ratio"], rows, "failover")
    sys.stdout.write(
        f"\nmedian difference {statistics.median(differences):+.2f} s, "
        f"median ratio {statistics.median(ratios):.2f}\n"
    )


class Commits:
    """When each batch was committed. Spark deletes the files of old ones, so they are noted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._times: dict[int, float] = {}

    def watch(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for path in self._directory.glob("[0-9]*"):
                if int(path.name) not in self._times:
                    self._times[int(path.name)] = path.stat().st_mtime
            time.sleep(0.1)

    def largest_gap(self, since: float, until: float) -> float:
        """Between two commits of which the later one was in this time."""
        times = [at for _, at in sorted(self._times.items())]
        gaps = [b - a for a, b in pairwise(times) if since <= b <= until]
        return max(gaps)


def measure(
    servers: list[ServerProcess], job: str, commits: Commits
) -> tuple[float, float, float, float]:
    leader, follower = servers if servers[0].get("/readyz")["leader"] else servers[::-1]
    commits.watch(_WINDOW)
    last = follower.status(job)["last_checkpoint"]["number"]
    killed_at, begun = time.time(), time.monotonic()
    leader.stop(signal.SIGKILL)
    while not follower.get("/readyz")["leader"]:
        time.sleep(0.02)
    leads = time.monotonic() - begun
    follower.until_checkpoint(job, last + 2, within=60)  # one may have been under way
    checkpoint = time.monotonic() - begun
    commits.watch(max(0.0, begun + _WINDOW - time.monotonic()))
    before = commits.largest_gap(killed_at - _WINDOW, killed_at)
    after = commits.largest_gap(killed_at, killed_at + _WINDOW)
    leader.start()
    eventually(lambda: leader.get("/readyz")["leader_url"] == follower.url.rstrip("/"), within=60)
    return leads, checkpoint, before, after


@contextmanager
def two_servers() -> Iterator[tuple[list[ServerProcess], Path]]:
    with tempfile.TemporaryDirectory(prefix="hgbench", ignore_cleanup_errors=True) as name:
        postgres = EmbeddedPostgres.start(Path(name) / "pg")
        storage = Path(name) / "storage"
        options = ("--database-url", postgres.url, "--storage", storage.as_uri())
        servers = [ServerProcess(Path(name) / one, *options) for one in ("one", "two")]
        try:
            for one in servers:
                one.start()
            yield servers, storage
        finally:
            for one in servers:
                one.clean_up()
            postgres.stop()


def _document() -> dict[str, Any]:
    return {
        "name": "runs on",
        "parallelism": 2,
        "checkpointing": {"interval": "1s"},
        "vertices": [
            {
                "id": "rows",
                "op": "source",
                "connector": "generator",
                "rows_per_second": 1000,
                "columns": {"k": "id % 100"},
            },
            {
                "id": "counts",
                "op": "aggregate",
                "inputs": ["rows"],
                "key": ["k"],
                "aggregate": {"n": "count(*)"},
            },
            {"id": "out", "op": "sink", "inputs": ["counts"], "connector": "blackhole"},
        ],
    }


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3)
