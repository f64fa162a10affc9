"""Errors in or around user code. The message begins with the root cause.

Such an error travels from a Python worker to the JVM and back as text: only its name and its
message are left, so they have to contain everything (`taskrunner.core.failures`).
"""

from typing import Any


class UserCodeError(Exception):
    """User code raised an exception, or returned a value that does not fit."""

    @classmethod
    def raised(
        cls, error: BaseException, vertex: str, function: str, key: Any = None
    ) -> "UserCodeError":
        place = f"in {function} of vertex {vertex}" + ("" if key is None else f", key {key!r}")
        return cls(f"{type(error).__name__}: {error} ({place})")

    @classmethod
    def gave(cls, vertex: str, function: str, what: str) -> "UserCodeError":
        return cls(f"{what} (given by {function} of vertex {vertex})")
