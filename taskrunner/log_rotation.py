"""Keeps this process's log within its limits, also while no JobManager is there."""

import os
import threading
from pathlib import Path

from jobmanager.files.log_rotation import LogLimits, rotate
from taskrunner import logs

_EVERY_SECONDS = 5.0
log = logs.get("log_rotation")


def start(every: float = _EVERY_SECONDS) -> None:
    """Starts a thread that rotates the file which standard error goes to, if it goes to a file and
    the environment has limits.
    """
    limits = LogLimits.of_environment(os.environ)
    path = Path("/proc/self/fd/2").readlink()
    if limits is not None and path.is_file():
        thread = threading.Thread(
            target=_run, args=(path, limits, every), name="log rotation", daemon=True
        )
        thread.start()


def _run(path: Path, limits: LogLimits, every: float) -> None:
    pause = threading.Event()
    while not pause.wait(every):
        try:
            rotate(path, limits)
        except OSError as error:  # a full disk: the next time, perhaps
            log.warning("log_not_rotated", reason=str(error))
