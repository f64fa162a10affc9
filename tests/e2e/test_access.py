"""Two real servers that need tokens and speak TLS, the command line, and a runner between them."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from jobmanager import command  # noqa: F401 - adds all commands to the app
from jobmanager.client.cli import app, run
from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import RequestRefused, ServerUnreachable
from tests.support.certificates import Authority
from tests.support.databases import fresh_database
from tests.support.server import GuardedServer

BATCH = {
    "name": "behind-tls",
    "mode": "batch",
    "vertices": [
        {
            "id": "rows",
            "op": "source",
            "connector": "table",
            "schema": "n INT",
            "rows": [{"n": 1}, {"n": 2}],
        },
        {"id": "out", "op": "sink", "inputs": ["rows"], "connector": "blackhole"},
    ],
}


@dataclass
class Pair:
    leader: GuardedServer
    follower: GuardedServer
    ca: Path

    @property
    def admin(self) -> str:
        assert self.leader.first_admin_token is not None
        return self.leader.first_admin_token


@pytest.fixture(scope="module")
def pair(postgres_url: str) -> Iterator[Pair]:
    with (
        tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name,
        fresh_database(postgres_url) as url,
    ):
        home = Path(name)
        authority = Authority(home / "tls")
        issued = authority.issue("127.0.0.1")
        options = ["--database-url", url, "--storage", (home / "storage").as_uri()]
        options += ["--tls-cert", str(issued.certificate), "--tls-key", str(issued.key)]
        options += ["--ca", str(authority.certificate), "--require-tokens"]
        made = [
            GuardedServer(home / one, *options, "--node", one) for one in ("leader", "follower")
        ]
        try:
            for server in made:
                server.begin()
            yield Pair(made[0], made[1], authority.certificate)
        finally:
            for server in made:
                server.clean_up()


def test_the_first_admin_token_is_told_once_and_in_no_log(pair: Pair) -> None:
    assert pair.admin.startswith("hg_")
    assert pair.follower.first_admin_token is None
    for server in (pair.leader, pair.follower):
        assert server.url.startswith("https://127.0.0.1:")
        assert pair.admin not in server.log.read_text()
        for file in server.directory.rglob("*"):
            assert not file.is_file() or pair.admin.encode() not in file.read_bytes(), file


def test_nobody_gets_in_without_a_token_or_is_believed_without_a_certificate(pair: Pair) -> None:
    for server in (pair.leader, pair.follower):
        with (
            pytest.raises(RequestRefused) as refused,
            HeadgateClient(server.url, ca=pair.ca, token="") as client,
        ):
            client.jobs()
        assert refused.value.status == 401
        with (
            pytest.raises(ServerUnreachable, match="--ca FILE or HEADGATE_CA"),
            HeadgateClient(server.url, token=pair.admin) as client,
        ):
            client.jobs()
    with pytest.raises(httpx.HTTPError):
        httpx.get(pair.leader.url.replace("https:", "http:") + "/v1/jobs", timeout=10)


def test_tokens_by_the_command_line(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADGATE_URL", pair.leader.url)
    monkeypatch.setenv("HEADGATE_TOKEN", pair.admin)

    def headgate(*arguments: str) -> tuple[int, str, str]:
        code = run(app, [*arguments, "--ca", str(pair.ca)])
        said = capsys.readouterr()
        return code, said.out, said.err

    code, token, _ = headgate(
        "tokens", "create", "ci", "--role", "viewer", "--expires", "90d", "-q"
    )
    assert code == 0
    monkeypatch.setenv("HEADGATE_TOKEN", token.strip())
    assert headgate("whoami")[1] == "ci, with the role viewer\n"
    code, _, complaint = headgate("gc", "--dry-run")
    assert code == 7
    assert "needs the role admin" in complaint
    monkeypatch.delenv("HEADGATE_TOKEN")
    monkeypatch.setenv("HEADGATE_TOKEN_COMMAND", f"echo {pair.admin}")
    assert "ci" in headgate("tokens", "list")[1]
    assert headgate("tokens", "revoke", "ci")[1] == "the token ci is revoked\n"
    audited = headgate("audit", "--limit", "3")[1]
    assert "DELETE /tokens/{name}" in audited
    assert "POST /gc" in audited
    monkeypatch.setenv("HEADGATE_TOKEN", token.strip())
    code, _, complaint = headgate("list")
    assert code == 7
    assert "'ci' was revoked" in complaint


def test_a_job_runs_and_a_follower_passes_it_on_with_the_callers_token(pair: Pair) -> None:
    with (
        HeadgateClient(pair.follower.url, ca=pair.ca, token=pair.admin) as follower,
        HeadgateClient(pair.leader.url, ca=pair.ca, token=pair.admin) as leader,
    ):
        operator = leader.create_token("night-shift", "operator")["token"]
        viewer = leader.create_token("screen", "viewer")["token"]
        with HeadgateClient(pair.follower.url, ca=pair.ca, token=operator) as client:
            job = client.submit(BATCH)
            with pytest.raises(RequestRefused) as refused:
                client.gc(dry_run=True)
        with HeadgateClient(pair.follower.url, ca=pair.ca, token=viewer) as client:
            assert client.wait_until_ended(job, timeout=240) == "FINISHED"
        [submitted] = [one for one in follower.audit()["items"] if one["subject"] == job]
        entries = follower.history(job)["items"]

    assert refused.value.status == 403
    assert (submitted["actor"], submitted["status"]) == ("night-shift", 202)
    assert submitted["forwarded_by"] is not None
    assert entries[0]["actor_name"] == "night-shift"
