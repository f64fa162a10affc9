"""Processes that served a runner and may serve another: the server's end of their channels.

`jobmanager/core/reused_process.py` says where such a process stands; here its words are heard, the
exit of its runner is recorded, and it is given to the next runner. Whatever goes wrong dooms the
process: the server closes its end of the channel, upon which the process ends, and kills the
process if it does not end soon.
"""

import asyncio
import contextlib
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import structlog
from pydantic import ValidationError

from jobmanager.core.ids import AttemptNumber, RunnerId
from jobmanager.core.reused_process import (
    ExitRecorded,
    ProcessDoubted,
    ProcessEvent,
    ProcessOffered,
    ProcessPhase,
    ProcessTaken,
    ReturnAnnounced,
    ReusedProcess,
    TakeConfirmed,
    step,
)
from jobmanager.launchers import processes
from jobmanager.protocol.process_channel import HandOver, ProcessNews

_log = structlog.get_logger(__name__)
_CONFIRM_SECONDS = 5.0
"""How long a process may take to confirm that it serves a runner; usually milliseconds."""
_RETURN_SECONDS = 8.0
"""How long a launch waits for a process that is about to be free: a cold start takes longer."""
_END_SECONDS = 15.0
_RESERVED_SECONDS = 10.0

RecordReturn = Callable[[RunnerId, AttemptNumber, str], Awaitable[bool]]
"""Records that a runner exited and its process stays; False: that process must not be reused."""


@dataclass(slots=True)
class HeldProcess:
    """A process of this server, and the server's end of its channel."""

    state: ReusedProcess
    child: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    attempt: AttemptNumber | None = None
    """The attempt after which the process may be reused; None: it may not."""
    reserved_until: float = 0.0
    confirmed: asyncio.Future[bool] | None = None
    """Whether the process has taken the runner that it was handed over to."""
    idle_since: float = 0.0

    @property
    def is_serving(self) -> bool:
        return self.state.phase is ProcessPhase.SERVING

    def confirm(self, is_taken: bool) -> None:
        if self.confirmed is not None and not self.confirmed.done():
            self.confirmed.set_result(is_taken)

    def happen(self, event: ProcessEvent) -> ProcessPhase:
        self.state = step(self.state, event)
        return self.state.phase


class ReusedProcesses:
    """The processes that one server has started, and that can still be returned to it."""

    def __init__(
        self,
        limit: int,
        is_wanted: Callable[[], bool],
        stop_watching: Callable[[RunnerId], None],
        delete_files: Callable[[UUID], None],
    ) -> None:
        self._limit = limit
        """How many jobs a process serves; 0: processes are not reused."""
        self._is_wanted = is_wanted
        self._stop_watching = stop_watching
        self._delete_files = delete_files
        self._held: dict[UUID, HeldProcess] = {}
        self._expected: dict[RunnerId, AttemptNumber] = {}
        self._reserved: dict[RunnerId, HeldProcess] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._record: RecordReturn | None = None

    def on_return(self, record: RecordReturn) -> None:
        self._record = record

    @property
    def idle(self) -> list[HeldProcess]:
        """Processes that wait for a job, the warmest first."""
        found = [
            one
            for one in self._held.values()
            if one.state.phase is ProcessPhase.IDLE and one.child.poll() is None
        ]
        return sorted(found, key=lambda one: -one.state.served)

    @property
    def expected(self) -> int:
        """How many are about to become idle."""
        return sum(one.state.is_expected for one in self._held.values())

    @property
    def ids(self) -> list[UUID]:
        return list(self._held)

    def expect_return(self, runner: RunnerId, attempt: AttemptNumber) -> None:
        self._expected[runner] = attempt

    async def hold(
        self, runner: RunnerId, child: subprocess.Popen[bytes], own: socket.socket
    ) -> None:
        """Keep the channel to a process that was just given its first runner."""
        attempt = self._expected.pop(runner, None)
        if not self._limit or attempt is None:
            own.close()
            return
        own.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=own)
        held = HeldProcess(ReusedProcess(runner, runner), child, reader, writer, attempt)
        self._held[runner] = held
        self._spawn(self._listen(held))

    def reserve(self) -> RunnerId | None:
        """Reserve an idle process for a new runner; None: there is none."""
        for held in self._free():
            runner = RunnerId(uuid4())
            held.reserved_until = time.monotonic() + _RESERVED_SECONDS
            self._reserved = {one: by for one, by in self._reserved.items() if by is not held}
            self._reserved[runner] = held
            return runner
        return None

    def _free(self) -> list[HeldProcess]:
        now = time.monotonic()
        return [one for one in self.idle if one.reserved_until < now]

    def process_of(self, runner: RunnerId) -> UUID | None:
        held = self._reserved.get(runner)
        return held.state.id if held is not None else None

    async def await_returning(self) -> None:
        """Wait until a process is idle, or none is about to become idle."""
        deadline = time.monotonic() + _RETURN_SECONDS
        while not self._free() and self.expected and (left := deadline - time.monotonic()) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    async def give(self, runner: RunnerId, secret: str, home: Path) -> HeldProcess | None:
        """Give the reserved process to the runner. None: that process cannot take it, and surely
        does not run any more.
        """
        held = self._reserved.pop(runner, None)
        if held is None or held.state.phase is not ProcessPhase.IDLE:
            return None
        held.attempt, held.reserved_until = self._expected.get(runner), 0.0
        held.confirmed = asyncio.get_running_loop().create_future()
        held.happen(ProcessTaken(runner))
        with contextlib.suppress(OSError, TimeoutError):
            order = HandOver(runner=runner, secret=secret, home=str(home))
            held.writer.write(order.model_dump_json().encode() + b"\n")
            if await asyncio.wait_for(held.confirmed, _CONFIRM_SECONDS):
                self._expected.pop(runner, None)
                return held  # and may have returned already
        _log.warning("a returned process did not take a runner", process=str(held.state.id))
        await self._kill(held)
        return None

    def may_kill(self, runner: RunnerId, process: UUID) -> bool:
        """Whether that process still serves the runner. If so, it serves no other from now on."""
        held = self._held.get(process)
        if held is None:
            return True
        if not held.state.serves(runner):
            return False
        held.happen(ProcessDoubted())
        return True

    async def end_one(self) -> bool:
        """End the idle process that has served most; False: there is none."""
        for held in self.idle[:1]:
            self._dismiss(held)
            return True
        return False

    def idle_seconds(self) -> float:
        """For how long every idle process has waited."""
        return time.monotonic() - max((one.idle_since for one in self.idle), default=0.0)

    async def close(self) -> None:
        """End all processes that serve nobody, and take none back any more."""
        for held in list(self._held.values()):
            serves = held.is_serving
            self._forget(held)
            if not serves:
                held.happen(ProcessDoubted())
                await self._kill(held)
        self._reserved.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, held: HeldProcess) -> None:
        try:
            while line := await held.reader.readline():
                await self._hear(held, ProcessNews.received(line))
        except (OSError, ValueError, ValidationError) as error:
            _log.warning(
                "a process is not understood", process=str(held.state.id), error=str(error)
            )
        self._lose(held)

    async def _hear(self, held: HeldProcess, news: ProcessNews) -> None:
        runner, was_serving = RunnerId(news.runner), held.is_serving
        match news.event:
            case "returning":
                held.happen(ReturnAnnounced(runner))
            case "offered":
                if held.happen(ProcessOffered(runner)) is ProcessPhase.OFFERED:
                    await self._take_back(held, runner)
            case "serving":
                held.happen(TakeConfirmed(runner))
                held.confirm(held.is_serving)
        if held.state.phase is ProcessPhase.DOOMED and was_serving:
            self._forget(held)  # its job goes on
        elif held.state.phase is ProcessPhase.DOOMED:
            self._dismiss(held)
        self._changed.set()

    async def _take_back(self, held: HeldProcess, runner: RunnerId) -> None:
        """Record the exit of the runner; from then on the process waits for a job."""
        served, attempt = held.state.served, held.attempt
        if served >= self._limit or attempt is None or not self._is_wanted():
            held.happen(ProcessDoubted())  # its exit will be seen
            return
        assert self._record is not None
        description = f"its process stayed, to serve another job; it has served {served}"
        is_recorded = await self._record(runner, attempt, description)
        if not is_recorded or held.child.poll() is not None:
            held.happen(ProcessDoubted())
            return
        # nothing is awaited from here on: nobody sees a runner that is watched and has exited
        if held.happen(ExitRecorded(runner)) is ProcessPhase.IDLE:
            self._stop_watching(runner)
            held.attempt = None
            held.idle_since = time.monotonic()
            _log.info("runner returned", runner=str(runner), process=str(held.state.id))

    def _lose(self, held: HeldProcess) -> None:
        """The process has closed its end: it ends, or has ended."""
        is_ours = self._held.get(held.state.id) is held
        if is_ours and held.is_serving:
            self._forget(held)  # who watches the runner sees its exit
        elif is_ours:
            self._dismiss(held)
        held.confirm(False)
        self._changed.set()

    def _dismiss(self, held: HeldProcess) -> None:
        """Ask a process that serves nobody to end, and make sure that it does."""
        if self._held.get(held.state.id) is not held:
            return
        held.happen(ProcessDoubted())
        self._forget(held)
        self._changed.set()
        self._spawn(self._see_out(held))

    async def _see_out(self, held: HeldProcess) -> None:
        """Wait for the end of a process whose channel was closed, but not for long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(held.child.wait, _END_SECONDS)
        await self._kill(held)

    async def _kill(self, held: HeldProcess) -> None:
        """Returns when nothing of the process runs any more."""
        self._forget(held)
        await asyncio.to_thread(processes.kill_all_of, str(held.state.id))
        await asyncio.to_thread(held.child.wait)
        await asyncio.to_thread(self._delete_files, held.state.id)

    def _forget(self, held: HeldProcess) -> None:
        if self._held.get(held.state.id) is held:
            del self._held[held.state.id]
        held.writer.close()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
