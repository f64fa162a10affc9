"""Runs each runner as a process of this machine, in a session of its own.

A runner outlives the server that started it. The next server watches it through
a pidfd, which works for a process that is not one's child.

Some are kept warm: processes with a primed Spark session that wait for their token on
their standard input. With the token one of them is a runner like any other; without, it
ends with this server, however that ends.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from uuid import uuid4

import structlog

from jobmanager.core.ids import RunnerId
from jobmanager.files.log_rotation import LogLimits
from jobmanager.launchers import processes, temporary
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
        log_limits: LogLimits | None = None,
    ) -> None:
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
        """Who is told that a runner's process is gone. Until then nobody is."""
        self._on_exit = callback

    def host(self) -> str:
        return self._node

    def log_path(self, runner_id: RunnerId) -> str:
        return str(self._directory / str(runner_id) / "runner.log")

    async def launch(self, runner_id: RunnerId, token: str) -> Launched:
        _require_java()
        warm = self._warm.pop(runner_id, None)
        if warm is not None:
            child = warm
            await asyncio.to_thread(_hand_over, child, token)
        else:
            child = await asyncio.to_thread(self._start, runner_id, token)
        self._children[runner_id] = child
        started_at = processes.started_at(child.pid)
        _log.info("runner launched", runner=str(runner_id), pid=child.pid)
        return Launched(self.host(), child.pid, started_at, self.log_path(runner_id))

    def reserve(self) -> RunnerId | None:
        """A warm process that the next launch may be given to; one that is primed, if possible."""
        alive = [one for one, child in self._warm.items() if child.poll() is None]
        return next(
            (one for one in alive if self._ready_file(one).exists()), next(iter(alive), None)
        )

    def warm(self) -> int:
        """How many wait, or will when they are primed."""
        return len(self._warm)

    def warm_states(self) -> dict[str, int]:
        alive = [one for one, child in self._warm.items() if child.poll() is None]
        primed = sum(self._ready_file(one).exists() for one in alive)
        return {"primed": primed, "starting": len(alive) - primed}

    async def keep_warm(self, wanted: int) -> None:
        """Starts or ends one warm process, if there are not as many as wanted."""
        for runner_id, child in list(self._warm.items()):
            if child.poll() is not None:
                del self._warm[runner_id]
                _log.warning("warm runner ended", runner=str(runner_id), code=child.returncode)
                await asyncio.to_thread(self._temporary(runner_id).delete)
        if len(self._warm) < wanted:
            runner_id = RunnerId(uuid4())
            self._warm[runner_id] = await asyncio.to_thread(self._start, runner_id, None)
        elif len(self._warm) > wanted:
            await self._end_warm(next(iter(self._warm)))

    async def end_warm(self) -> None:
        """Ends all that wait."""
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
        """Sees to it that the runner's end is reported, whoever started it."""
        if runner.host != self.host() or runner.id in self._watching:
            return
        task = asyncio.create_task(self._await_exit(runner), name=f"watch {runner.id}")
        self._watching[runner.id] = task
        task.add_done_callback(lambda _: self._watching.pop(runner.id, None))

    async def kill(self, runner: Runner) -> str:
        """Ends the runner and all it started. Returns when none of them can run any more."""
        if runner.host != self.host():
            return f"runner {runner.id} is on {runner.host}, out of reach"
        killed = await asyncio.to_thread(processes.kill_all_of, str(runner.id))
        _log.info("runner killed", runner=str(runner.id), processes=killed)
        return f"{killed} processes killed"

    async def close(self) -> None:
        """Stops watching, until it is told to watch again. The runners go on."""
        for task in list(self._watching.values()):
            task.cancel()
        await asyncio.gather(*self._watching.values(), return_exceptions=True)

    def reap(self) -> None:
        """Lets go of children that have ended while nobody watched."""
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

    def _start(self, runner_id: RunnerId, token: str | None) -> subprocess.Popen[bytes]:
        """Without a token it is to wait, warm."""
        home = self._directory / str(runner_id)
        home.mkdir(parents=True, exist_ok=True)
        own = self._temporary(runner_id)
        own.create()
        command = [sys.executable, "-m", "taskrunner", "--runner-id", str(runner_id)]
        command += ["--address-file", str(self._address_file)]
        if token is None:
            command += ["--warm", self._spark_master]
            command += ["--ready-file", str(self._ready_file(runner_id))]
        with Path(self.log_path(runner_id)).open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=home,
                env={
                    **_environment(runner_id, token, own, self._class_archives),
                    **self._log_limits.environment(),
                },
                stdin=subprocess.DEVNULL if token else subprocess.PIPE,
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
        # Only one that gave up by itself had something to say at the end.
        if code and code > 0 and (said := processes.last_line(Path(runner.log_path))):
            description += f"; last line of its log: {said}"
        # What it started must not live on: Spark's JVM or its Python workers.
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


def _hand_over(child: subprocess.Popen[bytes], token: str) -> None:
    """A warm process becomes a runner: from here on it does not depend on this server."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError), child.stdin as stdin:  # its exit will be seen
        stdin.write(f"{token}\n".encode())


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


def _environment(
    runner_id: RunnerId, token: str | None, own: Temporary, class_archives: Path
) -> dict[str, str]:
    return {
        **os.environ,
        processes.MARKER: str(runner_id),
        **({"HEADGATE_RUNNER_TOKEN": token} if token else {}),
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
