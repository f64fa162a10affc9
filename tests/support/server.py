"""A real server in a process of its own, and everything it starts."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

from jobmanager.launchers import processes
from tests.support.databases import fresh_database

Found = TypeVar("Found")
PATIENCE = 120.0
"""Seconds. A slow machine is not a wrong result."""


class ServerProcess:
    """`headgate serve` with its data in `directory`. Nothing of it survives `clean_up`.

    The value of an option `--database-url` has a password: it goes into the environment.
    """

    module = "jobmanager"

    def __init__(
        self, directory: Path, *options: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.options, database = _without_database(options)
        self.environment = {**database, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None
        self.http = httpx.Client()

    def start(self, *more: str) -> "ServerProcess":
        command = [sys.executable, "-m", self.module, "serve", "--port", "0"]
        command += ["--data-dir", str(self.directory), *self.options, *more]
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, **self.environment},
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the server did not start: {self.log.read_text()[-2000:]}"
        self.http = httpx.Client(base_url=self._ready(line), timeout=30)
        return self

    def _ready(self, line: str) -> str:
        """Where the server is, from the first line that it says."""
        assert "ready at" in line, line
        return line.split()[-1]

    @property
    def url(self) -> str:
        return str(self.http.base_url)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self, number: signal.Signals = signal.SIGTERM, within: float = 90) -> int:
        """Ends the server with a signal; its exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        assert self._process.stdout is not None
        code = self._process.wait(within)
        self._process.stdout.close()
        self.http.close()
        return code

    def clean_up(self) -> None:
        with contextlib.suppress(Exception):
            self.stop(signal.SIGKILL)
        for runner in (self.directory / "runners").glob("*"):
            processes.kill_all_of(runner.name)
        for process in psutil.process_iter(["cmdline"]):
            if str(self.directory / "postgres") in " ".join(process.info["cmdline"] or []):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.terminate()

    def get(self, path: str) -> Any:
        answer = self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def submit(self, document: dict[str, Any]) -> str:
        answer = self.http.post("/v1/jobs", json=document)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["jobid"])

    def status(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/v1/jobs/{job}/status")
        return found

    def until_state(self, job: str, *states: str, within: float = 120) -> dict[str, Any]:
        """Waits until the job is in one of `states`; fails at once if it ended in another."""

        def reached() -> dict[str, Any] | None:
            status = self.status(job)
            if status["state"] in states:
                return status
            ended = status["state"] in ("failed", "finished", "cancelled")
            assert not ended, f"{status['state']}: {status['reason']}"
            return None

        return eventually(reached, within, lambda: str(self.status(job)))

    def until_checkpoint(self, job: str, number: int, within: float = 120) -> dict[str, Any]:
        """Waits until a checkpoint of at least `number` is complete; that checkpoint."""

        def completed() -> dict[str, Any] | None:
            last = self.status(job)["last_checkpoint"]
            return last if last and last["number"] >= number else None

        last = eventually(completed, within, lambda: self._why_no_checkpoint(job))
        found: dict[str, Any] = self.get(f"/v1/jobs/{job}/checkpoints/{last['number']}")
        return found

    def _why_no_checkpoint(self, job: str) -> str:
        status, newest = self.status(job), self.get(f"/v1/jobs/{job}/checkpoints")["history"][:3]
        log = self.http.get(f"/v1/jobs/{job}/logs?tail=20").text
        return f"{status}\n{newest}\n{log}"

    def runner_processes(self) -> list[int]:
        """Every process that any runner of this server started and that still runs."""
        marks = {
            f"{processes.MARKER}={one.name}".encode()
            for one in (self.directory / "runners").glob("*")
        }
        return [pid for pid in _pids() if marks & _environment(pid)]


def _without_database(options: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    if "--database-url" not in options:
        return options, {}
    at = options.index("--database-url")
    return options[:at] + options[at + 2 :], {"HEADGATE_DATABASE_URL": options[at + 1]}


class GuardedServer(ServerProcess):
    """`headgate serve --json`, whose line has the first admin token too."""

    first_admin_token: str | None = None

    def begin(self) -> None:
        self.start("--json")

    def _ready(self, line: str) -> str:
        told = json.loads(line)
        self.first_admin_token = told["first_admin_token"]
        return str(told["url"])


@contextmanager
def a_server(
    postgres_url: str, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """A server that runs, with a directory and a database of its own. In a short path: the name
    of a socket has a limit.
    """
    with (
        tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name,
        fresh_database(postgres_url) as url,
    ):
        made = ServerProcess(
            Path(name) / "server", "--database-url", url, *options, environment=environment
        )
        try:
            yield made.start()
        finally:
            made.clean_up()


def processes_of(runner: str) -> list[int]:
    """The runner's process and all it has started, as far as they run."""
    mark = f"{processes.MARKER}={runner}".encode()
    return [pid for pid in _pids() if mark in _environment(pid)]


def freeze_all(find: Callable[[], list[int]]) -> list[int]:
    """Stops all processes that `find` finds, and those that they start meanwhile. Returns them
    when no thread of theirs runs any more: a signal is sent long before it is obeyed.
    """
    frozen: list[int] = []
    while True:
        found = find()
        if found == frozen:
            return frozen
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        _until_frozen(found)
        frozen = found


def _until_frozen(pids: list[int]) -> None:
    eventually(lambda: all(map(is_frozen, pids)), within=60)


def is_frozen(pid: int) -> bool:
    """Whether all threads of the process are stopped; True as well if there is no such process."""
    with contextlib.suppress(OSError):
        threads = Path(f"/proc/{pid}/task").glob("*/stat")
        return all(one.read_text().rpartition(")")[2].split()[0] in "tTXZ" for one in threads)
    return True


def eventually(
    look: Callable[[], Found | None], within: float, explain: Callable[[], str] = lambda: ""
) -> Found:
    """What `look` finds, tried again until it finds something. On a machine that has nothing
    else to do that is `within` so many seconds; a busy machine is given `PATIENCE` at least.
    """
    deadline = time.monotonic() + max(within, PATIENCE)
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {max(within, PATIENCE)} s: {explain()}")
        time.sleep(0.1)


def _pids() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            yield int(entry.name)


def _environment(pid: int) -> set[bytes]:
    with contextlib.suppress(OSError):
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    return set()
