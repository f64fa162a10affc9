"""Low CPU priority for a process that prepares itself for a job that does not exist yet.

Only what can be taken back is used, because the job must not run with low priority:

* The kernel's autogroups: each runner's process leads a session of its own, and all processes of a
  session share one weight, which any user may lower and raise again. Not every kernel has
  autogroups, and they do nothing inside of a CPU control group.
* The niceness of every thread, if this process may lower it again: as root, or with a sufficient
  `RLIMIT_NICE`. An ordinary user has neither, so there niceness is left alone.
"""

import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

import psutil

from taskrunner import logs

LOW = 19
"""The lowest there is: a spare process gets what nobody else wants. On a machine that is busy all
the time it takes minutes, and a job is not slowed down by a process that nobody waits for.
"""
_WEAKEST = 20
_CAP_SYS_NICE = 23
_AUTOGROUP = Path("/proc/self/autogroup")
_TRIES = 20
"""The kernel takes ten changes of autogroups in a second, for all processes of all users."""
_PAUSE_SECONDS = 0.1
log = logs.get("priority")


def lower_until(wait: Callable[[], object]) -> None:
    """Lowers the priority of this process and of what it starts, until `wait` returns."""
    niceness, weight = os.getpriority(os.PRIO_PROCESS, 0), _autogroup()
    has_weight = weight is not None and weight < LOW and _set_autogroup(LOW)
    has_niceness = niceness < LOW and _may_set(niceness)
    if has_niceness:
        _set_niceness(LOW)
    log.info("low_priority", by_session=has_weight, by_niceness=has_niceness)

    def restore() -> None:
        wait()
        if has_weight and weight is not None:
            _set_autogroup(weight)
        if has_niceness:
            _set_niceness(niceness)

    Thread(target=restore, name="priority", daemon=True).start()


def _autogroup() -> int | None:
    """The weight of this process's session, as a niceness; None: it is not this process's own."""
    if os.getsid(0) != os.getpid():
        return None
    try:
        return int(_AUTOGROUP.read_text().split()[-1])
    except (OSError, ValueError, IndexError):
        return None


def _set_autogroup(value: int) -> bool:
    for _ in range(_TRIES):
        try:
            _AUTOGROUP.write_text(f"{value}\n")
            return True
        except BlockingIOError:  # too soon after somebody else's change
            time.sleep(_PAUSE_SECONDS)
        except OSError:
            return False
    return False


def _set_niceness(value: int) -> None:
    """Of every thread: niceness belongs to threads, and is inherited by those they start."""
    with suppress(psutil.Error):
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            with suppress(psutil.Error):  # it has ended meanwhile
                _set_threads(process, value)


def _set_threads(process: psutil.Process, value: int) -> None:
    changed: set[int] = set()
    while left := {one.id for one in process.threads()} - changed:
        for thread in left:
            with suppress(OSError):  # it has ended meanwhile
                os.setpriority(os.PRIO_PROCESS, thread, value)
        changed |= left


def _may_set(niceness: int) -> bool:
    """Whether this process may go back from a higher niceness to this one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NICE)
    if soft == resource.RLIM_INFINITY or soft >= _WEAKEST - niceness:
        return True
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> _CAP_SYS_NICE & 1)
    return False
