"""The demo's own server: a child process, of which no process survives the demo."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import HeadgateError

READY_WITHIN = 90.0
GONE_WITHIN = 20.0


class DemoServer:
    """`headgate serve` on a free port, with all its files in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.data_root = directory / "data"
        self.log = directory / "server.log"
        self._directory = directory
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._seen: set[psutil.Process] = set()
        self._process = self._start(port)

    def await_ready(self, client: HeadgateClient) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while not client.is_ready():
            self.check()
            if time.monotonic() >= deadline:
                raise HeadgateError(f"the server was not ready in {READY_WITHIN:.0f} s: {self.log}")
            time.sleep(0.2)

    def check(self) -> None:
        """Raise if the server has died; otherwise note the processes that it started."""
        if self._process.poll() is not None:
            last = self.log.read_text(errors="replace").strip().splitlines()[-1:] or ["no word"]
            raise HeadgateError(
                f"the server ended with code {self._process.returncode}: {last[0]} ({self.log})"
            )
        self._note_processes()

    def shut_down(self) -> list[str]:
        """End the server as an operator would; return the processes that had to be killed
        afterwards.
        """
        self._note_processes()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=60.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return self._end_survivors()

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        self.data_root.mkdir(parents=True)
        command = [sys.executable, "-m", "jobmanager", "serve", "--host", "127.0.0.1"]
        command += ["--port", str(port), "--data-dir", str(self._directory / "server")]
        command += ["--data-root", str(self.data_root), "--warm-runners", "0"]
        # The demo is the same on every machine, whatever its operator has set for real servers.
        # In a session of its own the server does not get Ctrl-C: the job is cancelled first.
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("HEADGATE_") or name == "HEADGATE_CLASS_ARCHIVES"
        }
        with self.log.open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def _note_processes(self) -> None:
        try:
            self._seen.update(psutil.Process(self._process.pid).children(recursive=True))
        except psutil.NoSuchProcess:
            return

    def _end_survivors(self) -> list[str]:
        """Kill processes that are left after they had time to end; return their names."""
        suspects = self._seen | _processes_naming(str(self._directory))
        _, alive = psutil.wait_procs(suspects, timeout=GONE_WITHIN)
        described = []
        for process in alive:
            try:
                described.append(f"{process.name()} ({process.pid})")
                process.kill()
            except psutil.NoSuchProcess:
                continue
        return described


def _processes_naming(text: str) -> set[psutil.Process]:
    """Find processes with `text` in their command line; the database is no child of the server."""
    found = set()
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if process.pid != os.getpid() and any(text in part for part in command):
            found.add(process)
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
