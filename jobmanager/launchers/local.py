"""Runs each runner as a process of this machine, in a session of its own.

A runner outlives the server that started it. The next server watches it through a pidfd, which also
works for a process that is not a child.

A runner reads its secret from its standard input, where no other process can read it. Arguments of
a process are visible to everybody, and its environment is inherited by user code.

Warm runners are processes with a primed Spark session that wait for their secret. A process that
gets a secret is a runner like any other; without a secret it ends with this server, however the
server ends.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path
from uuid import uuid4

import structlog

from jobmanager.core.ids import RunnerId
from jobmanager.core.redaction import Secrets
from jobmanager.files.connector_shelf import ConnectorShelf
from jobmanager.files.log_rotation import LogLimits
from jobmanager.launchers import processes, temporary
from jobmanager.launchers.environment import secrets_of_jobs, without_secrets
from jobmanager.launchers.temporary import Temporary
from jobmanager.services.ports.runners import Launched, Runner

_log = structlog.get_logger(__name__)
_UNUSED_SECONDS = 3600
OnExit = Callable[[RunnerId, str], Awaitable[None]]


class NoJava(Exception):
    """Spark needs a JRE, and none was found."""


class LocalLauncher:
    def __init__(
        self,
        directory: Path,
        address_file: Path,
        class_archives: Path,
        node: str,
        spark_master: str = "local[2]",
        ca: Path | None = None,
        secrets: Secrets | None = None,
        log_limits: LogLimits | None = None,
        connectors: ConnectorShelf | None = None,
        warm_connectors: Sequence[str] = (),
    ) -> None:
        """Warm processes have the jars of `warm_connectors`."""
        self._ca = ca
        self._connectors = connectors
        self._warm_connectors = tuple(warm_connectors)
        self._secrets = secrets or Secrets()
        self._log_limits = log_limits or LogLimits()
        self._class_archives = class_archives
        self._node = node
        self._spark_master = spark_master
        self._directory = directory
        self._address_file = address_file
        self._children: dict[RunnerId, subprocess.Popen[bytes]] = {}
        self._watching: dict[RunnerId, asyncio.Task[None]] = {}
        self._warm: dict[RunnerId, subprocess.Popen[bytes]] = {}
        self._on_exit: OnExit | None = None

    def on_exit(self, callback: OnExit) -> None:
        """Set the callback for the exit of a runner's process."""
        self._on_exit = callback

    def host(self) -> str:
        return self._node

    def log_path(self, runner_id: RunnerId) -> str:
        return str(self._directory / str(runner_id) / "runner.log")

    async def launch(self, runner_id: RunnerId, secret: str) -> Launched:
        _require_java()
        child = self._warm.pop(runner_id, None)
        if child is None:
            child = await asyncio.to_thread(self._start, runner_id, is_warm=False)
        await asyncio.to_thread(_hand_over, child, secret)
        self._children[runner_id] = child
        started_at = processes.started_at(child.pid)
        _log.info("runner launched", runner=str(runner_id), pid=child.pid)
        return Launched(self.host(), child.pid, started_at, self.log_path(runner_id))

    def reserve(self, needs: Collection[str] = ()) -> RunnerId | None:
        """Reserve a warm process for the next launch, if possible one that is primed."""
        if not set(needs) <= set(self._warm_connectors):
            return None
        alive = [one for one, child in self._warm.items() if child.poll() is None]
        return next(
            (one for one in alive if self._ready_file(one).exists()), next(iter(alive), None)
        )

    def warm(self) -> int:
        """Return how many warm processes wait, or will wait when they are primed."""
        return len(self._warm)

    def warm_states(self) -> dict[str, int]:
        alive = [one for one, child in self._warm.items() if child.poll() is None]
        primed = sum(self._ready_file(one).exists() for one in alive)
        return {"primed": primed, "starting": len(alive) - primed}

    async def keep_warm(self, wanted: int) -> None:
        """Start or end one warm process, if there are not as many as wanted."""
        for runner_id, child in list(self._warm.items()):
            if child.poll() is not None:
                del self._warm[runner_id]
                _log.warning("warm runner ended", runner=str(runner_id), code=child.returncode)
                await asyncio.to_thread(self._temporary(runner_id).delete)
        if len(self._warm) < wanted:
            runner_id = RunnerId(uuid4())
            warm = await asyncio.to_thread(self._start, runner_id, is_warm=True)
            self._warm[runner_id] = warm
        elif len(self._warm) > wanted:
            await self._end_warm(next(iter(self._warm)))

    async def end_warm(self) -> None:
        """End all waiting warm processes."""
        for runner_id in list(self._warm):
            await self._end_warm(runner_id)

    async def _end_warm(self, runner_id: RunnerId) -> None:
        child = self._warm.pop(runner_id)
        await asyncio.to_thread(processes.kill_all_of, str(runner_id))
        await asyncio.to_thread(child.wait)
        await asyncio.to_thread(self._temporary(runner_id).delete)
        await asyncio.to_thread(shutil.rmtree, self._directory / str(runner_id), ignore_errors=True)

    async def find(self, runner: Runner) -> Launched | None:
        if runner.host != self.host():
            return None
        pid = await asyncio.to_thread(processes.find, str(runner.id))
        if pid is None:
            return None
        with contextlib.suppress(processes.NoSuchProcess):
            return Launched(runner.host, pid, processes.started_at(pid), runner.log_path)
        return None

    async def watch(self, runner: Runner) -> None:
        """Watch the runner's process, whoever started it, and report its exit."""
        if runner.host != self.host() or runner.id in self._watching:
            return
        task = asyncio.create_task(self._await_exit(runner), name=f"watch {runner.id}")
        self._watching[runner.id] = task
        task.add_done_callback(lambda _: self._watching.pop(runner.id, None))

    async def kill(self, runner: Runner) -> str:
        """Kill the runner and all processes it started. Returns when none can run any more."""
        if runner.host != self.host():
            return f"runner {runner.id} is on {runner.host}, which this server cannot reach"
        killed = await asyncio.to_thread(processes.kill_all_of, str(runner.id))
        _log.info("runner killed", runner=str(runner.id), processes=killed)
        return f"{killed} processes killed"

    async def close(self) -> None:
        """Stop watching, until `watch` is called again. The runners go on."""
        for task in list(self._watching.values()):
            task.cancel()
        await asyncio.gather(*self._watching.values(), return_exceptions=True)

    def reap(self) -> None:
        """Collect child processes that ended while they were not watched."""
        for runner_id, child in list(self._children.items()):
            if runner_id not in self._watching and child.poll() is not None:
                del self._children[runner_id]

    async def delete_temporary_files(self) -> None:
        """Deletes the temporary directories of runners that have no process any more."""
        gone = await asyncio.to_thread(self._delete_leftovers)
        if gone:
            _log.info("temporary directories deleted", runners=gone)

    async def directories_of_the_gone(self) -> Sequence[str]:
        """The ids of runners that have a directory here, and for a while had no process."""
        return await asyncio.to_thread(self._directories_of_the_gone)

    async def delete_directories(self, runners: Iterable[str]) -> None:
        for runner in runners:
            directory = self._directory / runner
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def _directories_of_the_gone(self) -> list[str]:
        known = {str(one) for one in (*self._children, *self._watching, *self._warm)}
        found = [
            one.name
            for one in self._directory.glob("*-*-*-*-*")
            if one.name not in known and _is_unused(one)
        ]
        alive = {str(one) for one in processes.marked_runners()} if found else set()
        return [name for name in found if name not in alive]

    def _delete_leftovers(self) -> list[str]:
        data = self._directory.parent
        if not temporary.has_leftovers(data, [*self._children, *self._watching, *self._warm]):
            return []  # without a look at every process of the machine
        return temporary.delete_leftovers(data, processes.marked_runners())

    def _temporary(self, runner_id: RunnerId) -> Temporary:
        return temporary.of_runner(self._directory.parent, runner_id)

    def _ready_file(self, runner_id: RunnerId) -> Path:
        return self._directory / str(runner_id) / "ready"

    def _start(self, runner_id: RunnerId, *, is_warm: bool) -> subprocess.Popen[bytes]:
        home = self._directory / str(runner_id)
        home.mkdir(parents=True, exist_ok=True)
        own = self._temporary(runner_id)
        own.create()
        command = [sys.executable, "-m", "taskrunner", "--runner-id", str(runner_id)]
        command += ["--address-file", str(self._address_file)]
        if self._ca is not None:
            command += ["--ca", str(self._ca)]
        if is_warm:
            command += ["--warm", self._spark_master]
            command += ["--ready-file", str(self._ready_file(runner_id))]
            if self._connectors is not None and self._warm_connectors:
                command += ["--jars", jars_argument(self._connectors, self._warm_connectors)]
        with Path(self.log_path(runner_id)).open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=home,
                env={
                    **without_secrets(os.environ, self._secrets),
                    **secrets_of_jobs(os.environ),
                    **_environment(runner_id, own, self._class_archives),
                    **self._log_limits.environment(),
                },
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    async def _await_exit(self, runner: Runner) -> None:
        pid, born = runner.pid, runner.process_started_at
        if born is None and (found := await self.find(runner)):
            pid, born = found.pid, found.process_started_at
        if pid is not None and born is not None:
            await _wait_for_end(pid, born)
        child = self._children.pop(runner.id, None)
        code = await asyncio.to_thread(child.wait) if child else None
        description = processes.describe_exit(code)
        # Only the log of a runner that exited by itself ends with a reason.
        if code and code > 0:
            said = await asyncio.to_thread(processes.last_line, Path(runner.log_path))
            description += f"; last line of its log: {said}" if said else ""
        # Processes that it started must not survive: Spark's JVM or its Python workers.
        await asyncio.to_thread(processes.kill_all_of, str(runner.id))
        _log.info("runner exited", runner=str(runner.id), how=description)
        if self._on_exit is not None:
            await self._on_exit(runner.id, description)
        # Gigabytes, perhaps: nobody waits for it.
        await asyncio.to_thread(_delete_temporary_files, runner)


def _delete_temporary_files(runner: Runner) -> None:
    home = Path(runner.log_path).parent  # another server of this machine may have started it
    temporary.of_runner(home.parents[1], runner.id).delete()
    shutil.rmtree(home / "tmp", ignore_errors=True)  # where earlier versions had them


def _is_unused(home: Path) -> bool:
    """Whether a runner's directory has not changed for a while: a launch creates it first."""
    try:
        changed = max(one.stat().st_mtime for one in (home, *home.iterdir()))
    except OSError:
        return False
    return time.time() - changed > _UNUSED_SECONDS


def _hand_over(child: subprocess.Popen[bytes], secret: str) -> None:
    """Make a process a runner: from now on it does not depend on this server."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError), child.stdin as stdin:  # its exit will be noticed
        stdin.write(f"{secret}\n".encode())


def jars_argument(shelf: ConnectorShelf, packages: Iterable[str]) -> str:
    """The jars of these packages, as a runner reads them from its command line."""
    found = shelf.jars_of(packages)
    return json.dumps([{"path": str(one.path), "sha256": one.sha256} for one in found])


async def _wait_for_end(pid: int, born: float) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Asked after the pidfd is held: from here on the number cannot be reused.
        if not processes.is_same(pid, born):
            return
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            asyncio.get_running_loop().remove_reader(descriptor)
    finally:
        os.close(descriptor)


def _environment(runner_id: RunnerId, own: Temporary, class_archives: Path) -> dict[str, str]:
    return {
        processes.MARKER: str(runner_id),
        "PYTHONUNBUFFERED": "1",
        **own.environment(),
        "HEADGATE_CLASS_ARCHIVES": str(class_archives),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if (home and Path(home, "bin", "java").exists()) or shutil.which("java"):
        return
    raise NoJava("Spark needs Java 17 or newer: install one, or set JAVA_HOME")
