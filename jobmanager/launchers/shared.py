"""Shared processes: each serves several runners at the same time.

`jobmanager/core/runner_sharing.py` says which process a runner goes to. A runner has a row, a
secret, a home and a log of its own; its process has an id, a home and a log (of its JVM) besides.
The process gets its runners over the channel to the server that started it. How a runner ended, and
that it is to end, stand in files (`protocol/process_channel.py`), so that every later server can
see and say so:

    place reserved ──row committed──▶ handed over ──confirmed──▶ served ──▶ its exit file is there

A process that serves nobody for a while is ended. A process whose server has ended goes on, gets no
further runners, and ends with its last one. The end of the process is the end of all its runners.
"""

import asyncio
import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import structlog
from pydantic import ValidationError

from jobmanager.core.ids import RunnerId
from jobmanager.core.runner_sharing import SharedRoom, place
from jobmanager.launchers import processes
from jobmanager.protocol.process_channel import (
    HandOver,
    ProcessNews,
    end_file,
    exit_file,
    reason_file,
    served_file,
)
from jobmanager.services.ports.runners import Runner

_log = structlog.get_logger(__name__)
_CONFIRM_SECONDS = 30.0
"""How long a process may take to confirm a runner: a new one has to be imported first."""
_RESERVED_SECONDS = 30.0
_LINGER_SECONDS = 60.0
"""How long a process without runners waits for the next."""
_EXIT_SECONDS = 30.0
"""How long a process without runners may take to end."""
_END_SECONDS = 20.0
"""How long a runner that is to end may take, before its whole process is killed."""
_LOOK_AGAIN_SECONDS = 0.2

Started = tuple[subprocess.Popen[bytes], socket.socket]


class NotTaken(Exception):
    """A shared process did not take a runner; the launch can be repeated, with another process."""


@dataclass(slots=True)
class StartedProcess:
    """A shared process of this server, and the server's end of its channel."""

    id: UUID
    runners: set[RunnerId] = field(default_factory=set)
    """Those that it serves, or was asked to."""
    reserved: dict[RunnerId, float] = field(default_factory=dict)
    """Until when a place is kept for a runner."""
    served: int = 0
    is_open: bool = True
    child: subprocess.Popen[bytes] | None = None
    """None: not started yet."""
    has_ended: bool = False
    writer: asyncio.StreamWriter | None = None
    waiting: dict[RunnerId, asyncio.Future[bool]] = field(default_factory=dict)
    """Who waits for the confirmation of a runner."""
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def room(self, now: float) -> SharedRoom:
        self.reserved = {one: until for one, until in self.reserved.items() if until > now}
        jobs = len(self.runners | self.reserved.keys())
        return SharedRoom(self.id, jobs, self.served + len(self.reserved), self.is_open)

    def close(self) -> None:
        """Take no more runners. Without runners, the process ends."""
        self.is_open = False
        if self.writer is not None:
            self.writer.close()
        for waiting in self.waiting.values():
            if not waiting.done():
                waiting.set_result(False)


class SharedProcesses:
    """The shared processes that one server has started."""

    def __init__(
        self, most: int, start: Callable[[UUID], Started], delete_files: Callable[[UUID], None]
    ) -> None:
        """`most`: how many runners a process serves at the same time; 0: there are none."""
        self._most = most
        self._start = start
        self._delete_files = delete_files
        self._processes: dict[UUID, StartedProcess] = {}
        self.orphans: list[subprocess.Popen[bytes]] = []
        """Processes that get no more runners from this server, and are its children still."""
        self._ending: set[RunnerId] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ids(self) -> list[UUID]:
        return list(self._processes)

    def share(self, runner: RunnerId) -> bool:
        """Reserve a place for the runner; False: this server has no shared processes."""
        if not self._most:
            return False
        now = time.monotonic()
        self._release(runner)
        found = place([one.room(now) for one in self._processes.values()], self._most)
        if found is None:
            found = uuid4()
            self._processes[found] = StartedProcess(found)
        self._processes[found].reserved[runner] = now + _RESERVED_SECONDS
        return True

    def process_of(self, runner: RunnerId) -> UUID | None:
        """The process that has a place for the runner."""
        found = self._reserved(runner)
        return found.id if found is not None else None

    async def give(self, runner: RunnerId, secret: str, home: Path) -> StartedProcess | None:
        """Give the runner to the process that has a place for it; None: no process has. Raises
        `NotTaken`, or what the start of a process raises.
        """
        process = self._reserved(runner)
        if process is None:
            return None
        process.runners.add(runner)
        self._release(runner)
        process.served += 1
        try:
            await self._ensure_started(process)
            await self._hand_over(process, HandOver(runner=runner, secret=secret, home=str(home)))
        except BaseException:
            self.left(runner, process.id)
            raise
        return process

    def child_of(self, process: UUID) -> subprocess.Popen[bytes] | None:
        found = self._processes.get(process)
        return found.child if found is not None else None

    def watched(self, runner: RunnerId, process: UUID) -> None:
        """The runner is served, also where its confirmation came too late."""
        found = self._processes.get(process)
        if found is not None:
            found.runners.add(runner)

    def left(self, runner: RunnerId, process: UUID) -> None:
        """The runner has exited, or the process has not taken it."""
        self._ending.discard(runner)
        found = self._processes.get(process)
        if found is not None:
            found.runners.discard(runner)
            if found.runners:
                return
            self._spawn(self._forget(found) if found.has_ended else self._end_if_unused(found))

    def end(self, runner: Runner) -> str:
        """Ask the process to end this runner alone; if it does not in time, kill the process."""
        if runner.id not in self._ending:
            self._ending.add(runner.id)
            self._spawn(self._make_end(runner))
        return f"process {runner.process_id} was asked to end it"

    async def close(self) -> None:
        """Give no more runners to any process: those that serve nobody end."""
        for process in list(self._processes.values()):
            process.close()
            if not process.runners:
                await asyncio.to_thread(processes.kill_all_of, str(process.id))
                await self._see_out(process)
        self.orphans += [one.child for one in self._processes.values() if one.child is not None]
        self._processes.clear()
        self.reap()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._ending.clear()

    def reap(self) -> None:
        """Collect the processes that have ended since they were given up."""
        self.orphans = [one for one in self.orphans if one.poll() is None]

    def _reserved(self, runner: RunnerId) -> StartedProcess | None:
        return next((one for one in self._processes.values() if runner in one.reserved), None)

    def _release(self, runner: RunnerId) -> None:
        for process in self._processes.values():
            process.reserved.pop(runner, None)

    async def _ensure_started(self, process: StartedProcess) -> None:
        async with process.starting:
            if process.child is not None:
                return
            try:
                child, own = await asyncio.to_thread(self._start, process.id)
                process.child = child
                own.setblocking(False)
                reader, process.writer = await asyncio.open_connection(sock=own)
            except BaseException:
                process.is_open = False
                raise
            _log.info("shared process started", process=str(process.id), pid=child.pid)
            self._spawn(self._listen(process, reader))

    async def _hand_over(self, process: StartedProcess, order: HandOver) -> None:
        """Raises `NotTaken`. A process that is given up may still take the runner: the launch that
        follows has another secret, unless it finds that the runner was taken.
        """
        runner = RunnerId(order.runner)
        confirmed = process.waiting[runner] = asyncio.get_running_loop().create_future()
        try:
            if process.writer is not None and process.is_open:
                process.writer.write(order.model_dump_json().encode() + b"\n")
                if await asyncio.wait_for(confirmed, _CONFIRM_SECONDS):
                    return
        except (OSError, TimeoutError):
            pass
        finally:
            del process.waiting[runner]
        process.is_open = False
        raise NotTaken(f"the shared process {process.id} did not take the runner {runner}")

    async def _listen(self, process: StartedProcess, reader: asyncio.StreamReader) -> None:
        """Hear the process until it closes its end: then it ends, or has ended."""
        try:
            while line := await reader.readline():
                news = ProcessNews.received(line)
                waiting = process.waiting.get(RunnerId(news.runner))
                if news.event == "serving" and waiting is not None and not waiting.done():
                    waiting.set_result(True)
        except (OSError, ValueError, ValidationError) as error:
            _log.warning("a process is not understood", process=str(process.id), error=str(error))
        process.close()
        await self._see_out(process)

    async def _end_if_unused(self, process: StartedProcess) -> None:
        await asyncio.sleep(_LINGER_SECONDS if process.is_open else 0)
        if process.room(time.monotonic()).jobs == 0:
            process.close()
            await self._see_out(process)

    async def _see_out(self, process: StartedProcess) -> None:
        """Wait for the end of a process that was closed. One that serves nobody must end soon."""
        deadline = time.monotonic() + _EXIT_SECONDS
        while (child := process.child) is not None and child.poll() is None:
            if process.runners:
                deadline = time.monotonic() + _EXIT_SECONDS
            elif time.monotonic() > deadline:
                await asyncio.to_thread(processes.kill_all_of, str(process.id))
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        await asyncio.to_thread(processes.kill_all_of, str(process.id))  # its JVM
        process.has_ended = True
        if not process.runners:  # else those who watch them ask for the exit code
            await self._forget(process)

    async def _forget(self, process: StartedProcess) -> None:
        if self._processes.pop(process.id, None) is not None:
            await asyncio.to_thread(self._delete_files, process.id)

    async def _make_end(self, runner: Runner) -> None:
        home, process = Path(runner.log_path).parent, runner.process_id
        await asyncio.to_thread(_ask_to_end, home, process)
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            if has_exited(runner) or not served_file(home, process).exists():
                self._ending.discard(runner.id)
                return
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        why = f"runner {runner.id} of job {runner.job_id.hex} did not end when it was asked to"
        await asyncio.to_thread(_kill, home.parent / str(process), process, why)
        self._ending.discard(runner.id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def has_exited(runner: Runner) -> bool:
    """Whether the runner's process says that nothing of the runner runs any more."""
    return exit_file(Path(runner.log_path).parent, runner.process_id).exists()


def is_served(runner: Runner) -> bool:
    """Whether the process has taken the runner, and has not ended it."""
    return served_file(Path(runner.log_path).parent, runner.process_id).exists()


def description_of_exit(runner: Runner) -> str:
    """What the process said of the end of the runner."""
    with contextlib.suppress(OSError):
        said = exit_file(Path(runner.log_path).parent, runner.process_id).read_text(
            errors="replace"
        )
        return said.strip()[:500]
    return "its shared process ended it"


def description_of_end(runner: Runner, code: int | None) -> str:
    """How the whole process ended, and who ended it."""
    process_home = Path(runner.log_path).parent.parent / str(runner.process_id)
    how = f"its shared process ended: {processes.describe_exit(code)}"
    with contextlib.suppress(OSError):
        why = reason_file(process_home).read_text(errors="replace").strip()
        return f"{how}; {why[:500]}"
    said = processes.last_line(process_home / "runner.log") if code and code > 0 else None
    return f"{how}; last line of its log: {said}" if said else how


def _ask_to_end(home: Path, process: UUID) -> None:
    with contextlib.suppress(OSError):  # on a full disk nothing can be asked, and a kill follows
        home.mkdir(parents=True, exist_ok=True)
        end_file(home, process).touch()


def _kill(process_home: Path, process: UUID, why: str) -> None:
    with contextlib.suppress(OSError):
        reason_file(process_home).write_text(f"killed by the server: {why}\n")
    killed = processes.kill_all_of(str(process))
    _log.warning("shared process killed", process=str(process), processes=killed, reason=why)
