"""An upgrade of Headgate while a job runs: an old server, an old runner, and a new server."""

import json
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_server_life import JOB
from tests.integration.upgrade.previous_version import checked_out, environment_of
from tests.support.databases import fresh_database
from tests.support.server import ServerProcess, eventually


@pytest.fixture
def old_and_new(postgres_url: str) -> Iterator[tuple[ServerProcess, ServerProcess, str]]:
    """A server of the previous version and a server of this version, for one database and one
    storage. Neither runs yet.
    """
    with (
        tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name,
        fresh_database(postgres_url) as url,
    ):
        place = checked_out(Path(name))
        options = ("--storage", (Path(name) / "storage").as_uri(), "--node")
        old = ServerProcess(Path(name) / "a", *options, "old", environment=environment_of(place))
        new = ServerProcess(Path(name) / "b", "--database-url", url, *options, "new")
        try:
            yield old, new, url
        finally:
            new.clean_up()
            old.clean_up()


def leads(server: ServerProcess) -> bool:
    return bool(server.get("/readyz")["leader"])


@pytest.mark.long
def test_a_job_goes_on_from_an_old_leader_to_a_new_one(
    old_and_new: tuple[ServerProcess, ServerProcess, str],
) -> None:
    old, new, url = old_and_new
    old.start("--database-url", url)
    job = old.submit(JOB)
    before = old.until_checkpoint(job, 1)["number"]
    [runner] = old.get("/v1/runners?alive=true")["items"]
    assert "protocol" not in runner["versions"], "the server is not of the previous version"

    # the new server migrates the database and follows; the old one leads on the new schema
    new.start()
    assert (leads(old), leads(new)) == (True, False)
    during = old.until_checkpoint(job, before + 1)["number"]
    assert new.until_checkpoint(job, during + 1)["number"] > during
    asked = new.http.post(f"/v1/jobs/{job}/checkpoints")  # forwarded by the new to the old
    assert asked.status_code == 202, asked.text

    # the old leader dies, and the new one takes over the old runner, which has heard of it
    addresses = old.directory / "address.json"
    eventually(lambda: new.url.rstrip("/") in addresses.read_text(), within=10)
    old.stop(signal.SIGKILL)
    eventually(lambda: leads(new), within=30)
    last = new.status(job)["last_checkpoint"]["number"]
    new.until_checkpoint(job, last + 2)
    [adopted] = new.get("/v1/runners?alive=true")["items"]
    assert (adopted["id"], adopted["attempt"]) == (runner["id"], 1)
    assert adopted["versions"]["protocol"] == "1"
    assert new.status(job)["attempt"] == 1

    # and directs it
    stopped = new.http.patch(f"/v1/jobs/{job}?mode=cancel")
    assert stopped.status_code == 202, stopped.text
    new.until_state(job, "cancelled")
    history = json.dumps(new.get(f"/v1/jobs/{job}/history"))
    assert "leader_changed" in history
    assert "attempt_failed" not in history
