"""This process's end of the channel to the server that started it: the standard input.

Without a channel (the server is of an older version, or has ended) a process serves one runner.
"""

import os
import select
import socket
import stat
from uuid import UUID

from pydantic import ValidationError

from jobmanager.protocol.process_channel import HandOver, ProcessNews
from taskrunner import logs

_LONGEST_LINE = 64 * 1024
log = logs.get("channel")


class ServerChannel:
    """Reads and writes lines. Used by one thread."""

    def __init__(self, descriptor: int = 0) -> None:
        # a copy that no process which is started later inherits
        self._descriptor = os.dup(descriptor)
        os.set_inheritable(self._descriptor, False)
        self._is_socket = stat.S_ISSOCK(os.fstat(self._descriptor).st_mode)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, descriptor)
        os.close(nothing)

    def has_words(self) -> bool:
        """Whether the server has said something, or has ended."""
        return bool(select.select([self._descriptor], [], [], 0)[0])

    def await_words(self) -> None:
        """Waits until the server has said something, or has ended. For any thread."""
        select.select([self._descriptor], [], [])

    def read_secret(self) -> str | None:
        """Waits for the secret of the first runner; None: the server ended without giving one."""
        line = self._read_line()
        return line.decode().strip() or None if line is not None else None

    def announce_return(self, runner: UUID) -> bool:
        """Tells the server that the process begins to clean up; False: nobody waits for it."""
        return self._say(ProcessNews(event="returning", runner=runner))

    def offer(self, runner: UUID) -> bool:
        """Offers the process to the server; False: there is none."""
        return self._say(ProcessNews(event="offered", runner=runner))

    def await_runner(self) -> HandOver | None:
        """Waits for the next runner; None: the server has no use for the process, or has ended."""
        line = self._read_line()
        if line is None:
            return None
        try:
            return HandOver.received(line)
        except ValidationError as error:
            faults = [str(one["msg"]) for one in error.errors(include_input=False)]
            log.error("hand_over_not_readable", faults=faults)
            return None

    def confirm(self, runner: UUID) -> bool:
        """Tells the server that this process serves the runner from now on."""
        return self._say(ProcessNews(event="serving", runner=runner))

    def close(self) -> None:
        os.close(self._descriptor)

    def _say(self, news: ProcessNews) -> bool:
        if not self._is_socket:
            return False
        with socket.socket(fileno=os.dup(self._descriptor)) as channel:
            try:
                channel.sendall(news.model_dump_json().encode() + b"\n")
            except OSError:
                return False
        return True

    def _read_line(self) -> bytes | None:
        """A whole line, and nothing that follows it; None: the other end was closed."""
        line = b""
        while not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
            try:
                sign = os.read(self._descriptor, 1)
            except OSError:
                return None
            if not sign:
                return None
            line += sign
        return line
