"""Rotates a log that several processes write to, without their help.

The processes of a runner inherit the file and only append to it. So its contents are copied to
`<name>.1` and the file is emptied; `<name>.1` was renamed to `<name>.2` before, and so on. Lines
that are written between the copy and the emptying are lost: a few, once in many megabytes.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_BYTES = "HEADGATE_LOG_BYTES"
_FILES = "HEADGATE_LOG_FILES"


@dataclass(frozen=True, slots=True)
class LogLimits:
    bytes: int = 64 * 1024 * 1024
    """Size at which a log is rotated."""
    files: int = 3
    """How many rotated logs are kept."""

    def environment(self) -> dict[str, str]:
        """Tells a runner its limits."""
        return {_BYTES: str(self.bytes), _FILES: str(self.files)}

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> "LogLimits | None":
        """The limits of this runner; None: its log is not rotated."""
        if _BYTES not in environment or _FILES not in environment:
            return None
        return cls(int(environment[_BYTES]), int(environment[_FILES]))


def rotate(log: Path, limits: LogLimits) -> bool:
    """Rotates the log if it is too large; returns whether it was."""
    try:
        if log.stat().st_size < limits.bytes:
            return False
    except FileNotFoundError:
        return False
    for number in range(limits.files, 1, -1):
        older = _numbered(log, number - 1)
        if older.exists():
            older.replace(_numbered(log, number))
    if limits.files:
        draft = log.with_name(f".{log.name}.draft")
        shutil.copyfile(log, draft)
        draft.replace(_numbered(log, 1))
    os.truncate(log, 0)
    return True


def _numbered(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")
