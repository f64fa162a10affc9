"""Runs each runner as a process of this machine, in a session of its own.

A runner outlives the server that started it. The next server watches it through a pidfd, which also
works for a process that is not a child.

A runner reads its secret from its standard input, where no other process can read it. Arguments of
a process are visible to everybody, and its environment is inherited by user code.

Warm runners are processes with a primed Spark session that wait for their secret. A process that
gets a secret is a runner like any other; without a secret it ends with this server, however the
server ends. A process whose job has ended may return and wait again (`launchers/reuse.py`), so a
runner and its process have ids of their own: all processes carry the mark of the process.
"""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path
from uuid import UUID, uuid4

import structlog

from jobmanager.core.ids import AttemptNumber, RunnerId
from jobmanager.core.redaction import Secrets
from jobmanager.core.runner_reuse import can_be_cleaned
from jobmanager.files.connector_shelf import ConnectorShelf
from jobmanager.files.log_rotation import LogLimits
from jobmanager.launchers import processes, shared, temporary
from jobmanager.launchers.environment import secrets_of_jobs, without_secrets
from jobmanager.launchers.reuse import RecordReturn, ReusedProcesses
from jobmanager.launchers.shared import SharedProcesses, StartedProcess
from jobmanager.launchers.temporary import Temporary
from jobmanager.services.ports.runners import Launched, Runner

_log = structlog.get_logger(__name__)
_UNUSED_SECONDS = 3600
_LINGER_SECONDS = 60.0
"""How long one returned process more than wanted waits: jobs often come one after the other."""
_LOOK_AGAIN_SECONDS = 0.2
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
        reuse: int = 0,
        shared_jobs: int = 0,
        shared_memory: str = "2g",
    ) -> None:
        """Warm processes have the jars of `warm_connectors`. A process serves up to `reuse` jobs,
        one after the other; 0: one. A shared process serves up to `shared_jobs` at the same time;
        0: there are none.
        """
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
        self._channels: dict[RunnerId, socket.socket] = {}
        """Of processes that wait for their first secret."""
        self._reuse = reuse if can_be_cleaned(spark_master) else 0
        self._wanted = 0
        self._reused = ReusedProcesses(
            self._reuse, self._wants_another, self._stop_watching, self._delete_files_of
        )
        self._shared_memory = shared_memory
        self._shared = SharedProcesses(
            shared_jobs if can_be_cleaned(spark_master) else 0,
            self._start_shared,
            self._delete_files_of,
        )
        self._on_exit: OnExit | None = None

    def on_exit(self, callback: OnExit) -> None:
        """Set the callback for the exit of a runner's process."""
        self._on_exit = callback

    def on_return(self, record: RecordReturn) -> None:
        """Set the callback that records the exit of a runner whose process stays."""
        self._reused.on_return(record)

    def host(self) -> str:
        return self._node

    def log_path(self, runner_id: RunnerId) -> str:
        return str(self._directory / str(runner_id) / "runner.log")

    async def launch(self, runner_id: RunnerId, secret: str) -> Launched:
        _require_java()
        home, log = self._directory / str(runner_id), self.log_path(runner_id)
        if (one := await self._shared.give(runner_id, secret, home)) is not None:
            return self._launched_in(one, runner_id)
        if (held := await self._reused.give(runner_id, secret, home)) is not None:
            child, process = held.child, held.state.id
        else:
            child, process = await self._launch_own(runner_id, secret), None
        self._children[runner_id] = child
        started_at = processes.started_at(child.pid)
        _log.info("runner launched", runner=str(runner_id), pid=child.pid)
        return Launched(self.host(), child.pid, started_at, log, process)

    def _launched_in(self, process: StartedProcess, runner_id: RunnerId) -> Launched:
        assert process.child is not None
        pid = process.child.pid
        try:
            started_at = processes.started_at(pid)
        except processes.NoSuchProcess:  # it has ended just now: nobody watches for the runner
            self._shared.left(runner_id, process.id)
            raise
        _log.info("runner launched", runner=str(runner_id), process=str(process.id), pid=pid)
        return Launched(self.host(), pid, started_at, self.log_path(runner_id), process.id)

    async def _launch_own(self, runner_id: RunnerId, secret: str) -> subprocess.Popen[bytes]:
        """Make a runner of a process that has served no other."""
        child = self._warm.pop(runner_id, None)
        if child is None:
            child = await asyncio.to_thread(self._start, runner_id, is_warm=False)
        channel = self._channels.pop(runner_id)
        await asyncio.to_thread(_hand_over, channel, secret)
        await self._reused.hold(runner_id, child, channel)
        return child

    def reserve(self, needs: Collection[str] = ()) -> RunnerId | None:
        """Reserve a process for the next launch: one that has served a job, else one that is
        primed, else one that is being primed.
        """
        # a process that returned may have started without the jars of the warm ones
        if not needs and (returned := self._reused.reserve()) is not None:
            return returned
        if not set(needs) <= set(self._warm_connectors):
            return None
        primed, starting = self._warm_by_state()
        return next(iter((*primed, *starting)), None)

    def process_of(self, runner_id: RunnerId) -> UUID | None:
        return self._shared.process_of(runner_id) or self._reused.process_of(runner_id)

    def share(self, runner_id: RunnerId) -> bool:
        return self._shared.share(runner_id)

    async def await_returning(self) -> None:
        if not self._warm_by_state()[0]:
            await self._reused.await_returning()

    def expect_return(self, runner_id: RunnerId, attempt: AttemptNumber) -> None:
        self._reused.expect_return(runner_id, attempt)

    def warm(self) -> int:
        """Return how many processes wait for a job, or will soon."""
        return len(self._warm) + self._pooled()

    def warm_states(self) -> dict[str, int]:
        primed, starting = self._warm_by_state()
        return {"primed": len(primed) + len(self._reused.idle), "starting": len(starting)}

    def want(self, processes: int) -> None:
        """Set how many processes are to wait for jobs: returned ones are kept accordingly."""
        self._wanted = processes

    def has_returned(self) -> bool:
        """Whether a process that served a job waits, or will soon."""
        return self._pooled() > 0

    async def keep_warm(self, wanted: int) -> None:
        """Start or end one warm process, if there are not as many as wanted."""
        self._wanted = wanted
        for runner_id, child in list(self._warm.items()):
            if child.poll() is not None:
                del self._warm[runner_id]
                self._channels.pop(runner_id).close()
                _log.warning("warm runner ended", runner=str(runner_id), code=child.returncode)
                await asyncio.to_thread(self._temporary(runner_id).delete)
        if self.warm() < wanted:
            await asyncio.to_thread(self.start_spare)
        elif self.warm() > wanted:
            await self._end_surplus()

    def start_spare(self, *, spares_jobs: bool = True) -> None:
        """Start a warm process, which gets the CPU time that jobs leave; or, with
        `spares_jobs=False`, as much as it can use.
        """
        runner_id = RunnerId(uuid4())
        self._warm[runner_id] = self._start(runner_id, is_warm=True, spares_jobs=spares_jobs)

    async def _end_surplus(self) -> None:
        """End one process more than wanted: one that is not primed yet, or one that has waited."""
        primed, starting = self._warm_by_state()
        if starting and self._reused.idle:
            await self._end_warm(starting[0])
        elif self._reused.idle and self._reused.idle_seconds() < _LINGER_SECONDS:
            return
        elif primed or starting:
            await self._end_warm((*primed, *starting)[0])
        else:
            await self._reused.end_one()

    def _wants_another(self) -> bool:
        """Whether a process that is offered is kept; beside those wanted one more, for a while."""
        primed, _ = self._warm_by_state()
        return self._wanted > 0 and len(primed) + len(self._reused.idle) <= self._wanted

    def _pooled(self) -> int:
        return len(self._reused.idle) + self._reused.expected

    def _warm_by_state(self) -> tuple[list[RunnerId], list[RunnerId]]:
        """Return the living warm processes that are primed, and those that are not yet."""
        alive = [one for one, child in self._warm.items() if child.poll() is None]
        primed = [one for one in alive if self._ready_file(one).exists()]
        return primed, [one for one in alive if one not in primed]

    async def end_warm(self) -> None:
        """End all processes that wait for a job, and take none back any more."""
        await self._reused.close()
        await self._shared.close()
        for runner_id in list(self._warm):
            await self._end_warm(runner_id)

    async def _end_warm(self, runner_id: RunnerId) -> None:
        child = self._warm.pop(runner_id)
        self._channels.pop(runner_id).close()
        await asyncio.to_thread(processes.kill_all_of, str(runner_id))
        await asyncio.to_thread(child.wait)
        await asyncio.to_thread(self._temporary(runner_id).delete)
        await asyncio.to_thread(shutil.rmtree, self._directory / str(runner_id), ignore_errors=True)

    async def find(self, runner: Runner) -> Launched | None:
        if runner.host != self.host():
            return None
        pid, process = await asyncio.to_thread(_find, runner)
        if pid is None:
            return None
        with contextlib.suppress(processes.NoSuchProcess):
            return Launched(runner.host, pid, processes.started_at(pid), runner.log_path, process)
        return None

    async def watch(self, runner: Runner) -> None:
        """Watch the runner's process, whoever started it, and report its exit."""
        if runner.host != self.host() or runner.id in self._watching or runner.exited_at:
            return
        task = asyncio.create_task(self._await_exit(runner), name=f"watch {runner.id}")
        self._watching[runner.id] = task
        task.add_done_callback(lambda _: self._watching.pop(runner.id, None))

    async def kill(self, runner: Runner) -> str:
        """Kill the runner and all processes it started. Returns when none can run any more."""
        if runner.host != self.host():
            return f"runner {runner.id} is on {runner.host}, which this server cannot reach"
        if runner.shares_process:
            return self._shared.end(runner)
        if not self._reused.may_kill(runner.id, runner.process_id):
            return "its process serves another runner"
        killed = await asyncio.to_thread(_kill, runner)
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
        self._shared.reap()

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
        known = {str(one) for one in self._known()}
        found = [
            one.name
            for one in self._directory.glob("*-*-*-*-*")
            if one.name not in known and _is_unused(one)
        ]
        alive = {str(one) for one in processes.marked_runners()} if found else set()
        return [name for name in found if name not in alive]

    def _delete_leftovers(self) -> list[str]:
        data = self._directory.parent
        if not temporary.has_leftovers(data, self._known()):
            return []  # without a look at every process of the machine
        return temporary.delete_leftovers(data, processes.marked_runners())

    def _known(self) -> list[UUID]:
        known = [*self._children, *self._watching, *self._warm]
        return [*known, *self._reused.ids, *self._shared.ids]

    def _temporary(self, process: UUID) -> Temporary:
        return temporary.of_runner(self._directory.parent, process)

    def _delete_files_of(self, process: UUID) -> None:
        self._temporary(process).delete()

    def _stop_watching(self, runner_id: RunnerId) -> None:
        """The runner has exited, and its process has not."""
        self._children.pop(runner_id, None)
        if (task := self._watching.pop(runner_id, None)) is not None:
            task.cancel()

    def _ready_file(self, runner_id: RunnerId) -> Path:
        return self._directory / str(runner_id) / "ready"

    def _start(
        self, runner_id: RunnerId, *, is_warm: bool, spares_jobs: bool = True
    ) -> subprocess.Popen[bytes]:
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
            command += ["--low-priority"] if spares_jobs else []
            if self._connectors is not None and self._warm_connectors:
                command += ["--jars", jars_argument(self._connectors, self._warm_connectors)]
        if self._reuse:
            command += ["--reuse", str(self._reuse)]
        child, self._channels[runner_id] = self._spawn(runner_id, command, own)
        return child

    def _start_shared(self, process: UUID) -> tuple[subprocess.Popen[bytes], socket.socket]:
        (self._directory / str(process)).mkdir(parents=True, exist_ok=True)
        own = self._temporary(process)
        own.create()
        command = [sys.executable, "-m", "taskrunner", "--runner-id", str(process)]
        command += ["--address-file", str(self._address_file)]
        if self._ca is not None:
            command += ["--ca", str(self._ca)]
        command += ["--shared", "--memory", self._shared_memory]
        return self._spawn(process, command, own)

    def _spawn(
        self, process: UUID, command: Sequence[str], own: Temporary
    ) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Start a process in its home. Return it with the server's end of its channel."""
        home = self._directory / str(process)
        own_end, its_end = socket.socketpair()
        with its_end, (home / "runner.log").open("ab") as log:
            child = subprocess.Popen(
                command,
                cwd=home,
                env={
                    **without_secrets(os.environ, self._secrets),
                    **secrets_of_jobs(os.environ),
                    **_environment(process, own, self._class_archives),
                    **self._log_limits.environment(),
                },
                stdin=its_end.fileno(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return child, own_end

    async def _await_exit(self, runner: Runner) -> None:
        if runner.shares_process:
            await self._await_exit_of_shared(runner)
            return
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
        await asyncio.to_thread(processes.kill_all_of, str(runner.process_id))
        _log.info("runner exited", runner=str(runner.id), how=description)
        if self._on_exit is not None:
            await self._on_exit(runner.id, description)
        # Gigabytes, perhaps: nobody waits for it.
        await asyncio.to_thread(_delete_temporary_files, runner)

    async def _await_exit_of_shared(self, runner: Runner) -> None:
        """Wait until the process says that the runner has exited, or has ended itself."""
        pid, born, process = runner.pid, runner.process_started_at, runner.process_id
        if pid is None or born is None:
            return  # it was never given to the process
        self._shared.watched(runner.id, process)
        ended = asyncio.create_task(_wait_for_end(pid, born))
        try:
            while not ended.done() and not shared.has_exited(runner):
                await asyncio.wait([ended], timeout=_LOOK_AGAIN_SECONDS)
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
        if shared.has_exited(runner):
            description = await asyncio.to_thread(shared.description_of_exit, runner)
        else:
            child = self._shared.child_of(process)
            code = await asyncio.to_thread(child.wait) if child else None
            await asyncio.to_thread(processes.kill_all_of, str(process))
            description = await asyncio.to_thread(shared.description_of_end, runner, code)
        self._shared.left(runner.id, process)
        _log.info("runner exited", runner=str(runner.id), how=description)
        if self._on_exit is not None:
            await self._on_exit(runner.id, description)


def _delete_temporary_files(runner: Runner) -> None:
    home = Path(runner.log_path).parent  # another server of this machine may have started it
    temporary.of_runner(home.parents[1], runner.process_id).delete()
    shutil.rmtree(home / "tmp", ignore_errors=True)  # where earlier versions had them


def _is_unused(home: Path) -> bool:
    """Whether a runner's directory has not changed for a while: a launch creates it first."""
    try:
        changed = max(one.stat().st_mtime for one in (home, *home.iterdir()))
    except OSError:
        return False
    return time.time() - changed > _UNUSED_SECONDS


def _hand_over(channel: socket.socket, secret: str) -> None:
    """Make a process a runner: from now on it does not depend on this server."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its exit will be noticed
        channel.sendall(f"{secret}\n".encode())


def _find(runner: Runner) -> tuple[int | None, UUID | None]:
    """Find the process that serves the runner, and its id if it has served others. The process of
    another runner that was to serve this one counts only if it has begun to.
    """
    if runner.shares_process:
        pid = processes.find(str(runner.process_id)) if shared.is_served(runner) else None
        return pid, runner.process
    if runner.process is not None:
        pid = processes.find(str(runner.process))
        if pid is not None and processes.writes_to(pid, Path(runner.log_path)):
            return pid, runner.process
    return processes.find(str(runner.id)), None


def _kill(runner: Runner) -> int:
    killed = processes.kill_all_of(str(runner.id)) if runner.process is not None else 0
    pid = processes.find(str(runner.process_id))
    if pid is None or runner.process is None or processes.writes_to(pid, Path(runner.log_path)):
        killed += processes.kill_all_of(str(runner.process_id))
    return killed


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


def _environment(process: UUID, own: Temporary, class_archives: Path) -> dict[str, str]:
    return {
        processes.MARKER: str(process),
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
