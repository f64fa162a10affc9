"""The tour in README.md, command by command as it is printed there, in one shell.

A shell in an empty directory beside the examples is all that differs from a reader's: the port
is a free one, and after a command the test waits until the job runs, as a reader looks first.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.server import ServerProcess, eventually

ROOT = Path(__file__).parents[2]
_DONE = "<<done"
EXPECTED = {
    "export PATH": "",
    "headgate serve": "",
    "headgate submit": r"submitted quickstart as job [0-9a-f]{32}",
    "headgate list": r"quickstart .*RUNNING",
    "headgate checkpoint": r"status +completed",
    "headgate rescale": r"rescaled from 2 to 4: \d+ key groups moved",
    "kill -9": "",
    "headgate show": r"(?s)attempt +3 .*restored +out: ",
    "headgate stop": r"savepoint [0-9a-f]{32} is at file:",
    "headgate savepoints": r"[0-9a-f]{32} +completed",
    "kill %1": "",
}
"""What each command prints. Another tour needs another table."""


def commands() -> list[str]:
    """The first block of shell commands in README.md, without its comments."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return [re.sub(r"\s+# .*$", "", line) for line in blocks[0].splitlines()]


class Shell:
    """One bash: what a command sets or starts is there for the next."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )

    def run(self, command: str) -> str:
        """What it printed. It has to succeed."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{command}\necho '{_DONE}' $?\n")
        said: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(_DONE):
                assert line.split()[1] == "0", f"{command}: {''.join(said)}"
                return "".join(said)
            said.append(line)
        raise AssertionError(f"{command}: the shell has ended: {''.join(said)}")

    def end(self) -> None:
        """Takes a server along that the tour did not come to end."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write("kill -9 %1 2>/dev/null\n")
        self._bash.stdin.close()
        self._bash.wait(60)
        self._bash.stdout.close()


@pytest.fixture
def server(directory: Path) -> Iterator[ServerProcess]:
    """The server that the tour starts: known by its directory, so that nothing survives."""
    (directory / "examples").symlink_to(ROOT / "examples")
    made = ServerProcess(directory / ".headgate")
    made.http = httpx.Client(base_url=f"http://127.0.0.1:{_free_port()}", timeout=30)
    try:
        yield made
    finally:
        made.clean_up()
        made.http.close()


def test_the_tour_in_the_readme_does_what_it_says(directory: Path, server: ServerProcess) -> None:
    tour = commands()
    assert [next(one for one in EXPECTED if line.startswith(one)) for line in tour] == [*EXPECTED]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    port = server.url.rstrip("/").rpartition(":")[2]
    shell = Shell(
        directory, {"PATH": path, "HEADGATE_PORT": port, "HEADGATE_URL": server.url.rstrip("/")}
    )
    try:
        for line, (beginning, pattern) in zip(tour, EXPECTED.items(), strict=True):
            said = shell.run(line)
            assert re.search(pattern, said), f"{line}: {said}"
            _look_first(server, beginning)
    finally:
        shell.end()

    eventually(lambda: not server.runner_processes(), within=30)  # the last is on its way out


def _look_first(server: ServerProcess, beginning: str) -> None:
    """What a reader sees on the dashboard before the next command."""
    if beginning == "headgate serve":
        eventually(lambda: _is_ready(server), within=60)
    elif beginning == "kill -9":
        eventually(lambda: _job(server)["attempt"] == 3, within=60)
    if beginning in ("headgate submit", "headgate rescale", "kill -9"):
        server.until_state(_job(server)["id"], "running")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_ready(server: ServerProcess) -> bool:
    try:
        return server.http.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def _job(server: ServerProcess) -> dict[str, Any]:
    [job] = server.get("/v1/jobs/summary")["items"]
    found: dict[str, Any] = job
    return found
