"""Keeps a running result for each key, by a function that combines two rows into one.

The first row of a key is its first result. Each row after that is combined with the result so
far: `function(result, row) -> result`. A key that has rows in a batch emits its result once.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from taskrunner.keyed import group_state, rows
from taskrunner.keyed.errors import UserCodeError
from taskrunner.keyed.operator import Moment, Outcome
from taskrunner.keyed.vertex_context import VertexContext

Combine = Callable[[dict[str, Any], dict[str, Any]], Mapping[str, Any]]
_RESULT = "result"


class ReduceOperator:
    """Runs a reduce function. A result has the columns of the input, the key first."""

    def __init__(self, function: Combine, subject: VertexContext) -> None:
        self._function = function
        self._subject = subject

    def take(self, state: bytes | None, rows_in: pd.DataFrame | None, moment: Moment) -> Outcome:
        group = group_state.unpack(state)
        results: list[dict[str, Any]] = []
        if rows_in is not None:
            columns = rows.columns_of(rows_in, self._subject.aware)
            keys = rows.keys_of(columns, self._subject.key, len(rows_in))
            found = rows.grouped(keys, rows.rows_of(columns), self._subject.no_key)
            for key, mine in found.items():
                blob = group.blobs.get(key)
                held = [group_state.unpack_key(blob)[_RESULT]] if blob else []
                result = self._reduced(key, [*held, *mine])
                group.blobs[key] = self._packed(key, result)
                results.append(result)
        subject = self._subject
        found_frame = rows.frame_of(results, subject.output, subject.vertex, subject.function)
        return Outcome(found_frame, group_state.pack(group), None)

    def _reduced(self, key: group_state.Key, mine: list[dict[str, Any]]) -> dict[str, Any]:
        result = mine[0]
        for row in mine[1:]:
            try:
                result = self._function(result, row)  # type: ignore[assignment]
            except Exception as error:
                raise self._subject.failed(error, "", self._subject.shown(key)) from error
            if not isinstance(result, dict):
                raise UserCodeError.gave(
                    self._subject.vertex,
                    self._subject.function,
                    f"{result!r} is not a row: a reduce function gives a dict of columns",
                )
        named = zip(self._subject.key, key, strict=True)
        return {**result, **dict(named)}

    def _packed(self, key: group_state.Key, result: dict[str, Any]) -> bytes:
        try:
            return group_state.pack_key({_RESULT: result})
        except Exception as error:
            raise self._subject.failed(error, "", self._subject.shown(key)) from error
