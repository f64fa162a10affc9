"""Processes of this machine: identifies them, checks whether they live, and kills them."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import psutil

NoSuchProcess = psutil.NoSuchProcess
_PR_SET_DUMPABLE = 4
MARKER = "HEADGATE_RUNNER_ID"
"""Set in a runner's environment; its JVM and Python workers inherit it."""
_EXEC_SECONDS = 0.5
"""How long the start of a program may take after the call that starts it has returned."""
_EXEC_PAUSE = 0.002
_EPOCH_SECONDS = 1e9
"""Larger start times are seconds since 1970, as earlier versions wrote them."""


def hide_memory() -> None:
    """Forbid other processes of the same user, such as user code in a runner, to read the memory
    and the environment of this process. Linux only; root may still read them.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def started_at(pid: int) -> float:
    """Return when a process started, in seconds since the machine did. The time of day would change
    when somebody sets the machine's clock. Raises `NoSuchProcess`.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise NoSuchProcess(pid) from None
    after_name = stat.rpartition(")")[2].split()
    return int(after_name[19]) / os.sysconf("SC_CLK_TCK")


def is_same(pid: int, process_started_at: float) -> bool:
    """Whether `pid` is still the process that started then, not another process or a zombie."""
    try:
        process = psutil.Process(pid)
        is_old = process_started_at > _EPOCH_SECONDS
        born = process.create_time() if is_old else started_at(pid)
        same = abs(born - process_started_at) < (1.0 if is_old else 0.001)
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def find(runner_id: str) -> int | None:
    """Find the runner's own process, not its JVM or a worker."""
    for pid in _marked(runner_id):
        with contextlib.suppress(OSError):
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"taskrunner" in arguments and runner_id.encode() in arguments:
                return pid
    return None


def writes_to(pid: int, log: Path) -> bool:
    """Whether the standard error of the process goes to this file: a process that serves several
    runners one after the other writes the log of the runner that it serves.
    """
    try:
        return Path(f"/proc/{pid}/fd/2").samefile(log)
    except OSError:
        return False


def kill_all_of(runner_id: str) -> int:
    """Kill all processes with the runner's mark: Spark's workers leave its process group."""
    killed = 0
    for pid in _marked(runner_id):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def marked_runners() -> set[UUID]:
    """The runners of which any process runs on this machine, whichever server started them."""
    found: set[UUID] = set()
    for _, environment in _environments():
        for entry in environment:
            name, _, value = entry.partition(b"=")
            if name == MARKER.encode():
                with contextlib.suppress(ValueError):  # the mark of an inspector is no id
                    found.add(UUID(value.decode(errors="replace")))
    return found


def _marked(runner_id: str) -> Iterator[int]:
    wanted = f"{MARKER}={runner_id}".encode()
    return (pid for pid, environment in _environments() if wanted in environment)


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                yield int(entry.name), _environment(entry).split(b"\0")


def _environment(process: Path) -> bytes:
    """The environment of a process. A process that was started a moment ago has neither arguments
    nor an environment until the kernel has copied them, which can take milliseconds.
    """
    deadline = time.monotonic() + _EXEC_SECONDS
    has_arguments = False  # they are copied first
    while True:
        found = (process / "environ").read_bytes()
        if found or has_arguments or time.monotonic() > deadline:
            return found
        (process / "exe").readlink()  # raises for threads of the kernel, and for zombies
        has_arguments = bool((process / "cmdline").read_bytes())
        time.sleep(_EXEC_PAUSE)


def describe_exit(code: int | None) -> str:
    if code is None:
        return "its exit code is unknown, this server did not start it"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


def last_line(log: Path) -> str | None:
    """Return the last line of a log that is not empty."""
    with contextlib.suppress(OSError), log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 4096))
        lines = [line.strip() for line in stream.read().decode(errors="replace").splitlines()]
        return next((line[:300] for line in reversed(lines) if line), None)
    return None
