"""Calls `function(key, left, right) -> rows` with the rows of each key from both inputs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from taskrunner.keyed import rows
from taskrunner.keyed.errors import UserCodeError
from taskrunner.keyed.group_state import Key
from taskrunner.keyed.rows import Row
from taskrunner.keyed.vertex_context import VertexContext

Join = Callable[[Any, list[Row], list[Row]], Iterable[Mapping[str, Any]] | None]


class CogroupOperator:
    """Processes a key group's rows of both sides. The list of a side without the key is empty."""

    def __init__(self, function: Join, subject: VertexContext, aware_right: frozenset[str]) -> None:
        self._function = function
        self._subject = subject
        self._aware_right = aware_right

    def take(self, left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        lefts = self._by_key(left, self._subject.aware)
        rights = self._by_key(right, self._aware_right)
        results: list[Mapping[str, Any]] = []
        for key in dict.fromkeys([*lefts, *rights]):
            results.extend(self._called(key, lefts.get(key, []), rights.get(key, [])))
        subject = self._subject
        return rows.frame_of(results, subject.output, subject.vertex, subject.function)

    def _by_key(self, frame: pd.DataFrame, aware: frozenset[str]) -> dict[Key, list[Row]]:
        columns = rows.columns_of(frame, aware)
        keys = rows.keys_of(columns, self._subject.key, len(frame))
        return rows.grouped(keys, rows.rows_of(columns), self._subject.no_key)

    def _called(self, key: Key, left: list[Row], right: list[Row]) -> list[Mapping[str, Any]]:
        shown = self._subject.shown(key)
        try:
            found = list(self._function(shown, left, right) or ())
        except Exception as error:
            raise self._subject.failed(error, "", shown) from error
        for one in found:
            if not isinstance(one, Mapping):
                raise UserCodeError.gave(
                    self._subject.vertex,
                    self._subject.function,
                    f"{one!r} is not a row: a cogroup function gives dicts of columns",
                )
        return found
