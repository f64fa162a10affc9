"""Leaders are killed and frozen, and Postgres goes away: jobs run on, and nothing is lost."""

import contextlib
import fcntl
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psutil
import psycopg
import pytest

from jobmanager.store.embedded import EmbeddedPostgres
from tests.e2e.test_exactly_once import RATE, a_bounded_job
from tests.e2e.test_server_life import JOB
from tests.support.databases import fresh_database
from tests.support.oracle import Bids, generator_started_at, read_windows, twice
from tests.support.renewed import Renewed, renewed
from tests.support.server import ServerProcess, eventually, freeze_all, is_frozen, processes_of

LEASE = 6.0
START = 240.0
"""To the first checkpoint, on a machine that has much else to do."""
SOON_LOST = {"HEADGATE_HEARTBEAT_TIMEOUT": "PT12S"}
ROWS_OF_AN_ATTEMPT = (
    "SELECT * FROM attempts WHERE job_id = %s AND number = %s",
    "SELECT heartbeat_at, registered_at FROM runners WHERE job_id = %s AND attempt = %s",
    """SELECT number, status, ended_at, batches FROM checkpoints
       WHERE job_id = %s AND attempt = %s ORDER BY number""",
    "SELECT * FROM history WHERE job_id = %s AND attempt = %s ORDER BY id",
)
MOST_ROWS = 1_000 * RATE
"""More than any of these tests takes."""


@dataclass
class Pair:
    """Two servers on one database and one storage."""

    servers: list[ServerProcess]
    storage: Path
    database_url: str
    started_at: int = 0
    job: str | None = None

    def leader_and_follower(self) -> tuple[ServerProcess, ServerProcess]:
        """Waits until one leads and the other knows it."""
        for one in self.servers:
            if not one.is_running:
                one.start()  # killed by the test before

        def found() -> tuple[ServerProcess, ServerProcess] | None:
            ready = [one.get("/readyz") for one in self.servers]
            leads = [one["leader"] for one in ready]
            if sorted(leads) == [False, True] and len({one["leader_url"] for one in ready}) == 1:
                first, second = self.servers
                return (first, second) if leads[0] else (second, first)
            return None

        return eventually(found, within=30)

    def server_on(self, node: str) -> ServerProcess:
        return next(one for one in self.servers if one.options[-1] == node)

    def check_output(self, job: str) -> None:
        """What there is is right and there once, and nothing is missing before the newest."""
        expected = Bids(RATE, self.started_at).windows(MOST_ROWS, 2000)

        def is_complete() -> bool:
            written = read_windows(self.storage / "data" / "out")
            assert not twice(written)
            assert set(written) <= expected
            newest = max((start for _, start, *_ in written), default=0)
            return set(written) == {row for row in expected if row[1] <= newest}

        eventually(is_complete, within=20)  # a batch may be on its way


@contextmanager
def a_pair(postgres_url: str) -> Iterator[Pair]:
    with (
        tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name,
        fresh_database(postgres_url) as url,
    ):
        storage = Path(name) / "storage"
        options = ("--database-url", url, "--storage", storage.as_uri(), "--node")
        servers = [
            ServerProcess(Path(name) / node, *options, node, environment=SOON_LOST)
            for node in ("one", "two")
        ]
        try:
            for one in servers:
                one.start()
            yield Pair(servers, storage, url)
        finally:
            for one in servers:
                one.clean_up()


@pytest.fixture(scope="module")
def pairs_in_turn(postgres_url: str) -> Iterator[Renewed[Pair]]:
    with renewed(lambda: a_pair(postgres_url)) as shared:
        yield shared


@pytest.fixture
def pair(pairs_in_turn: Renewed[Pair], request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two servers for the module; others after a failure."""
    with pairs_in_turn.lent_to(request.node) as lent:
        yield lent


@pytest.fixture
def job(pair: Pair) -> str:
    """A job that runs as long as the pair, submitted to the server that does not lead."""
    if pair.job is None:
        _, follower = pair.leader_and_follower()
        document = a_bounded_job("out")
        del document["vertices"][0]["rows"]
        pair.job = follower.submit(document)
        follower.until_checkpoint(pair.job, 1, within=START)
        first = pair.storage / "jobs" / pair.job / "attempts" / "1" / "out"
        pair.started_at = generator_started_at(first)
    return pair.job


def until_leading(server: ServerProcess, within: float) -> float:
    """Seconds until the server leads."""
    begun = time.monotonic()
    eventually(lambda: server.get("/readyz")["leader"], within)
    return time.monotonic() - begun


def checkpoints_go_on(server: ServerProcess, job: str) -> None:
    last = server.status(job)["last_checkpoint"]["number"]
    server.until_checkpoint(job, last + 1, within=60)


def test_when_the_leader_is_killed_another_leads_and_the_job_runs_on(pair: Pair, job: str) -> None:
    leader, follower = pair.leader_and_follower()
    before = leader.status(job)

    leader.stop(signal.SIGKILL)
    refused = follower.http.post("/v1/jobs", json=JOB)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
    assert until_leading(follower, within=LEASE + 10) < 3 * LEASE
    checkpoints_go_on(follower, job)

    after = follower.status(job)
    assert (after["state"], after["attempt"]) == ("running", 1)
    assert after["runner"] == before["runner"]
    pair.check_output(job)
    leader.start()  # it comes back, and follows
    assert not leader.get("/readyz")["leader"]


@pytest.mark.long
def test_a_leader_that_was_frozen_wakes_up_as_a_follower_and_changes_nothing(
    pair: Pair, job: str
) -> None:
    frozen, follower = pair.leader_and_follower()
    before = frozen.status(job)
    answers: list[httpx.Response] = []

    def write() -> None:
        """A request that a frozen server has, and will read when it wakes up."""
        path = f"{frozen.url}/v1/jobs/{job}/checkpoints"
        with contextlib.suppress(httpx.HTTPError):
            answers.append(httpx.post(path, timeout=60))

    freeze_all(lambda: [frozen.pid])
    try:
        asking = threading.Thread(target=write)
        asking.start()
        until_leading(follower, within=LEASE + 10)
        checkpoints_go_on(follower, job)
        term = follower.get("/v1/jobmanagers")["term"]
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    asking.join()

    leader, woken = pair.leader_and_follower()
    assert (leader, woken) == (follower, frozen)
    assert woken.get("/v1/jobmanagers")["term"] == term
    # What it was asked it passed on, or it said that it does not lead.
    assert [one.status_code for one in answers] in ([202], [503], [])
    after = woken.status(job)
    assert (after["attempt"], after["runner"]) == (1, before["runner"])
    checkpoints_go_on(woken, job)
    pair.check_output(job)
    kinds = [one["kind"] for one in woken.get(f"/v1/jobs/{job}/history?limit=1000")["items"]]
    assert not [kind for kind in kinds if "failed" in kind or "aborted" in kind]


@pytest.mark.long  # the simulation freezes runners in thousands of schedules
def test_a_runner_out_of_reach_that_was_frozen_wakes_up_and_can_publish_nothing(
    pair: Pair, job: str
) -> None:
    leader = away_from_runner(pair, job)
    pair.check_output(job)
    old = leader.status(job)
    frozen = freeze(pair.storage / "jobs" / job, old["runner"]["id"])
    new = eventually(lambda: runs_anew(leader, job, old["attempt"]), within=START)
    checkpoints_go_on(leader, job)
    before = traces(pair, job, old["attempt"])

    assert frozen
    assert processes_of(old["runner"]["id"]) == frozen
    assert all(map(is_frozen, frozen))
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: not processes_of(old["runner"]["id"]), within=60)
    checkpoints_go_on(leader, job)

    log = pair.server_on(old["runner"]["host"]).directory / "runners" / old["runner"]["id"]
    said = (log / "runner.log").read_text()
    # it hears of it, or finds the newer epoch at a batch or a checkpoint, whichever comes first
    assert "superseded" in said, said[-3000:]
    after = traces(pair, job, old["attempt"])
    assert after.pop("manifests") <= before.pop("manifests")  # retention may let some go
    assert after == before
    status = leader.status(job)
    assert (status["attempt"], status["runner"]) == (new["attempt"], new["runner"])
    pair.check_output(job)


def away_from_runner(pair: Pair, job: str) -> ServerProcess:
    """The leader, when it is not on the machine of the job's runner."""
    leader, follower = pair.leader_and_follower()
    if leader is pair.server_on(leader.status(job)["runner"]["host"]):
        leader.stop()
        until_leading(follower, within=LEASE + 10)
        leader.start()
        return follower
    return leader


def freeze(job_directory: Path, runner: str) -> list[int]:
    """Stops all its processes where they are, but not with the epoch's lock: who has that keeps
    a replacement waiting, so there would be none that it could disturb. Returns the processes.
    """
    while True:
        frozen = freeze_all(lambda: processes_of(runner))
        with (job_directory / "epoch.lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return frozen
            except BlockingIOError:
                for pid in frozen:
                    os.kill(pid, signal.SIGCONT)
                time.sleep(0.05)


def runs_anew(server: ServerProcess, job: str, attempt: int) -> dict[str, Any] | None:
    status = server.status(job)
    return status if status["attempt"] > attempt and status["state"] == "running" else None


def traces(pair: Pair, job: str, attempt: int) -> dict[str, Any]:
    """All that an attempt can leave: records of output, manifests, the epoch, rows."""
    sink = pair.storage / "data" / ".out.headgate" / job / "out"
    directory = pair.storage / "jobs" / job
    with psycopg.connect(pair.database_url) as connection:
        rows = [
            connection.execute(query, (UUID(job), attempt)).fetchall()
            for query in ROWS_OF_AN_ATTEMPT
        ]
    return {
        "batches": sorted(one["batch"] for one in documents(sink, "*.json", attempt)),
        "manifests": len(documents(directory, "checkpoints/*/manifest.json", attempt)),
        "epoch": (directory / "epoch").read_text(),
        "rows": rows,
    }


def documents(directory: Path, pattern: str, attempt: int) -> list[dict[str, Any]]:
    """Those that this attempt has written, of the ones that match."""
    found = []
    for path in directory.glob(pattern):
        with contextlib.suppress(FileNotFoundError):  # renamed or let go meanwhile
            found.append(json.loads(path.read_text()))
    return [one for one in found if one["attempt"] == attempt]


@pytest.mark.long
def test_a_stop_with_savepoint_under_way_when_the_leader_is_killed_ends_in_one_of_two_ways(
    pair: Pair, job: str
) -> None:
    leader, follower = pair.leader_and_follower()
    asked = leader.http.post(f"/v1/jobs/{job}/stop", json={})
    assert asked.status_code == 202, asked.text
    leader.stop(signal.SIGKILL)

    until_leading(follower, within=LEASE + 10)
    path = f"/v1/operations/{asked.json()['request-id']}"
    eventually(lambda: follower.get(path)["status"] != "in_progress", within=60)

    operation, status = follower.get(path), follower.status(job)
    if operation["status"] == "completed":
        assert status["state"] == "finished"
        verify = f"/v1/savepoints/{operation['result']['savepoint']}/verify"
        assert follower.http.post(verify).json()["faults"] == []
        eventually(lambda: not psutil.pid_exists(status["runner"]["pid"]), within=30)
    else:
        assert operation["error"]
        follower.until_state(job, "running")
    pair.check_output(job)


@pytest.fixture
def own_postgres() -> Iterator[tuple[EmbeddedPostgres, Path]]:
    """One that a test may stop. In a short path: its socket's name has a limit."""
    with tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name:
        postgres = EmbeddedPostgres.start(Path(name) / "pg")
        try:
            yield postgres, Path(name) / "pg"
        finally:
            postgres.stop()


@pytest.mark.long
def test_jobs_run_on_while_postgres_is_away_and_the_server_comes_back_by_itself(
    directory: Path, own_postgres: tuple[EmbeddedPostgres, Path]
) -> None:
    postgres, data = own_postgres
    server = ServerProcess(directory / "outage", "--database-url", postgres.url)
    try:
        job = server.start().submit(JOB)
        server.until_checkpoint(job, 1, within=START)
        before = server.status(job)
        commits = server.directory / "storage/jobs" / job / "attempts/1/out/commits"

        postgres.stop()
        begun, committed = time.monotonic(), newest(commits)
        says_come_back(server.http.get("/v1/jobs"))
        says_come_back(server.http.post("/v1/jobs", json=JOB))
        eventually(lambda: newest(commits) > committed + 1, within=60)
        while time.monotonic() < begun + LEASE + 1:  # longer than the lease lasts
            says_come_back(server.http.get(f"/v1/jobs/{job}/status"))
            time.sleep(0.5)
        EmbeddedPostgres.start(data)

        until_leading_again(server)
        checkpoints_go_on(server, job)
        after = server.status(job)
        assert (after["state"], after["attempt"]) == ("running", 1)
        assert after["runner"] == before["runner"]
    finally:
        server.clean_up()


def newest(commits: Path) -> int:
    return max((int(path.name) for path in commits.glob("[0-9]*")), default=-1)


def says_come_back(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2"), answer.text


def until_leading_again(server: ServerProcess) -> None:
    def leads() -> Any:
        ready = server.http.get("/readyz")
        return ready.status_code == 200 and ready.json()["leader"]

    eventually(leads, within=30)
