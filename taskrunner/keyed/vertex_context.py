"""The vertex that an operator runs for, and how its errors are worded."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from taskrunner.keyed.errors import UserCodeError
from taskrunner.keyed.group_state import Key


@dataclass(frozen=True, slots=True)
class VertexContext:
    vertex: str
    function: str
    """The function's name in the graph."""
    key: tuple[str, ...]
    output: pa.Schema
    aware: frozenset[str] = frozenset()
    """Input columns of type TIMESTAMP, which have a time zone."""

    def failed(self, error: BaseException, method: str, key: Any) -> UserCodeError:
        name = f"{self.function}.{method}" if method else self.function
        return UserCodeError.raised(error, self.vertex, name, key)

    def shown(self, key: Key) -> Any:
        """The key as users know it: the value of the only column, or a tuple."""
        return key[0] if len(key) == 1 else key

    def no_key(self, key: Key) -> UserCodeError:
        return UserCodeError(
            f"{key!r} cannot be a key: a list, a map or a struct has no hash; take a text of it "
            f"(key of vertex {self.vertex})"
        )
