"""Keeps this process's log within its limits, also while no JobManager is there."""

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from jobmanager.files.log_rotation import LogLimits, rotate
from taskrunner import logs
from taskrunner.runner_log import RunnerLog

_EVERY_SECONDS = 5.0
NAME = "log rotation"
"""Of the thread."""
log = logs.get("log_rotation")


def start(
    runner_log: RunnerLog,
    every: float = _EVERY_SECONDS,
    others: Callable[[], Iterable[Path]] = tuple,
) -> None:
    """Starts a thread that rotates the log, and the others that there are at the time, if the
    environment has limits.
    """
    limits = LogLimits.of_environment(os.environ)
    if limits is not None:
        thread = threading.Thread(
            target=_run, args=(runner_log, limits, every, others), name=NAME, daemon=True
        )
        thread.start()


def _run(
    runner_log: RunnerLog, limits: LogLimits, every: float, others: Callable[[], Iterable[Path]]
) -> None:
    pause = threading.Event()
    while not pause.wait(every):
        try:
            rotate_all(runner_log, limits, others())
        except OSError as error:  # a full disk: the next time, perhaps
            log.warning("log_not_rotated", reason=str(error))


def rotate_all(runner_log: RunnerLog, limits: LogLimits, others: Iterable[Path]) -> None:
    with runner_log.lock:
        if runner_log.path is not None:
            rotate(runner_log.path, limits)
    for log_of_runner in others:
        rotate(log_of_runner, limits)
