"""A disk without space: Hadoop says that a directory was not made, and not why."""

import re
from collections.abc import Callable, Sequence

from jobmanager.core.life.failure import FailureKind
from taskrunner.core.failures import Cause, Explanation

_NOT_MADE = re.compile(r"Mkdirs failed to create file:(/\S+)")
_LITTLE = 1024 * 1024
"""Bytes; a directory, and the smallest file in it, need some blocks."""


def explain(causes: Sequence[Cause], free_bytes: Callable[[str], int | None]) -> Explanation | None:
    """`free_bytes` is asked for the space on the file system of a path; None: unknown."""
    for cause in causes:
        if not_made := _NOT_MADE.search(cause.message):
            free = free_bytes(not_made[1])
            if free is not None and free < _LITTLE:
                return Explanation(
                    FailureKind.INFRASTRUCTURE,
                    f"no space left on the device of {not_made[1]} ({free} bytes are free): "
                    "delete something there; the job restarts by its strategy",
                    is_restartable=True,
                )
    return None
