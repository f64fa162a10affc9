"""Starts the reader processes of a server, takes the connections that they hand over, and starts
a new one where one has ended.

While any reader is ready, only readers accept connections: a new client does not wait for the
server's own process. While none is, the server's process accepts and answers everything itself, as
a server without readers does.
"""

import asyncio
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import structlog

from jobmanager.api.http_connections import HttpServer
from jobmanager.api.reader_connections import adopt, client_in
from jobmanager.api.reader_figures import FiguresOfReaders, figures_in
from jobmanager.core.ids import JobManagerId
from jobmanager.reader_channel import ChannelMessage, ReaderChannel
from jobmanager.services.clock import Clock, boot_seconds
from jobmanager.settings import Settings

EVERY_SECONDS = 1.0
_READY_WITHIN = 60
"""Reports that may be missing, one each second, before a reader that starts is killed …"""
_HEARD_WITHIN = 10
"""… and before one that was ready is."""
_SILENT = 3
"""Missing reports from which on the server's process accepts connections, too."""
_MOST_BYTES = 1024 * 1024 * 1024
"""Of memory, before a reader is replaced."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_END_WITHIN = 5.0
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ReaderStart:
    """What a reader has to know, given to it on its channel: it has secrets in it."""

    number: int
    settings: Settings
    database_url: str
    host_names: frozenset[str]
    me: JobManagerId
    now: Any
    seconds: float


@dataclass
class _KnownReader:
    number: int
    process: subprocess.Popen[bytes] | None = None
    channel: ReaderChannel | None = None
    is_ready: bool = False
    unheard: int = 0
    failures: int = 0
    """In a row, without having been ready for a while."""
    start_at: float = 0.0


@dataclass
class ReaderProcesses:
    settings: Settings
    database_url: str
    host_names: frozenset[str]
    me: JobManagerId
    listener: socket.socket
    clock: Clock
    http: HttpServer
    figures: FiguresOfReaders
    seconds: Callable[[], float] = time.monotonic
    _readers: list[_KnownReader] = field(default_factory=list, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _is_ending: bool = field(default=False, init=False)
    _thread: ThreadPoolExecutor = field(init=False)
    """Readers die with the thread that starts them: it lives as long as this process."""

    def __post_init__(self) -> None:
        self.figures.wanted = self.settings.readers
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readers")
        self._readers = [_KnownReader(number) for number in range(1, self.settings.readers + 1)]

    async def run_once(self) -> None:
        """Start readers that are missing, and end those that do not answer."""
        for one in self._readers:
            if one.process is not None and one.process.poll() is not None:
                self._note_end(one)
            if one.process is None and not self._is_ending and self.seconds() >= one.start_at:
                await self._start(one)
            if one.channel is not None:
                self._look_after(one)

    def failed(self) -> None:
        """The next run looks again."""

    def forget_tokens(self) -> None:
        """Tokens were revoked: readers must not accept what they have looked up before."""
        for one in self._readers:
            if one.channel is not None:
                one.channel.send({"kind": "forget_tokens"})

    async def close(self) -> None:
        """End the readers, and wait for them."""
        self._is_ending = True
        for one in self._readers:
            if one.channel is not None:
                one.channel.close()
        deadline = self.seconds() + _END_WITHIN
        for one in self._readers:
            while one.process is not None and one.process.poll() is None:
                if self.seconds() > deadline:
                    one.process.kill()
                await asyncio.sleep(0.02)
        self._thread.shutdown(wait=False)
        for task in self._tasks:
            task.cancel()

    async def _start(self, one: _KnownReader) -> None:
        here, there = socket.socketpair()
        files = self.listener.fileno(), there.fileno()
        loop = asyncio.get_running_loop()
        with there:
            one.process = await loop.run_in_executor(self._thread, _process, *files)
        if self._is_ending:
            one.process.kill()
            here.close()
            return
        self.figures.starts += 1
        one.unheard = 0
        one.channel = channel = ReaderChannel(
            here, lambda message: self._take(one, message), lambda: self._note_closed(one)
        )
        channel.open()
        start = ReaderStart(
            one.number,
            self.settings,
            self.database_url,
            self.host_names,
            self.me,
            self.clock(),
            boot_seconds(),
        )
        channel.send({"kind": "start"}, pickle.dumps(start))

    def _look_after(self, one: _KnownReader) -> None:
        assert one.channel is not None
        one.unheard += 1
        figures = self.figures.current.get(one.number)
        if one.unheard > (_HEARD_WITHIN if one.is_ready else _READY_WITHIN):
            self._kill(one, "it does not answer")
        elif figures is not None and figures.resident_bytes > _MOST_BYTES:
            self._kill(one, f"it has {figures.resident_bytes >> 20} MiB of memory")
        else:
            if one.unheard == _SILENT and one.is_ready:
                self._begin(self.http.accept())
            told = {"now": self.clock().isoformat(), "seconds": boot_seconds()}
            one.channel.send({"kind": "time", **told})

    def _kill(self, one: _KnownReader, why: str) -> None:
        _log.warning("reader killed", reader=one.number, why=why)
        if one.channel is not None:
            one.channel.close()

    def _take(self, one: _KnownReader, message: ChannelMessage) -> None:
        match message.head["kind"]:
            case "handover":
                assert message.file is not None
                told = client_in(message.head["of"])
                self._begin(adopt(self.http, told, message.content, message.file))
            case "ready":
                _log.info("reader ready", reader=one.number, pid=one.process and one.process.pid)
                one.is_ready = True
                self.http.leave_accepting()
            case "report":
                if one.unheard >= _SILENT and one.is_ready:
                    self.http.leave_accepting()
                one.unheard = 0
                one.failures = 0
                self.figures.current[one.number] = figures_in(message.head["figures"])

    def _note_closed(self, one: _KnownReader) -> None:
        """The channel is closed: a reader that still runs is of no use."""
        one.channel, one.is_ready = None, False
        self.figures.ended(one.number)
        if self._is_ending:
            return
        if one.process is not None:
            one.process.kill()
        if not any(other.is_ready for other in self._readers):
            self._begin(self.http.accept())

    def _note_end(self, one: _KnownReader) -> None:
        assert one.process is not None
        code, one.process = one.process.returncode, None
        if one.channel is not None:
            one.channel.close()
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**one.failures)
        one.failures += 1
        one.start_at = self.seconds() + pause
        if not self._is_ending:
            _log.warning("reader ended", reader=one.number, code=code, next_start_in_s=pause)

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("connection not taken over", error=f"{type(error).__name__}: {error}")


def _process(listener: int, channel: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "jobmanager.reader_main", str(listener), str(channel)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(listener, channel),
    )
