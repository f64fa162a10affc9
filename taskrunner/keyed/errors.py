"""What goes wrong in or around code of users. The message begins with the root cause.

Such an error crosses from a Python worker to the JVM and back as text: its name and its message
are all that is left of it, so both have to say everything (`taskrunner.core.failures`).
"""

from typing import Any


class UserCodeError(Exception):
    """Code of a user raised, or gave something that does not fit."""

    @classmethod
    def raised(
        cls, error: BaseException, vertex: str, function: str, key: Any = None
    ) -> "UserCodeError":
        place = f"in {function} of vertex {vertex}" + ("" if key is None else f", key {key!r}")
        return cls(f"{type(error).__name__}: {error} ({place})")

    @classmethod
    def gave(cls, vertex: str, function: str, what: str) -> "UserCodeError":
        return cls(f"{what} (given by {function} of vertex {vertex})")
