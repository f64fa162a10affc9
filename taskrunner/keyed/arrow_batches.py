"""A stateless function over Arrow batches: `function(batch) -> batch`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from taskrunner.keyed.errors import UserCodeError

Transform = Callable[[pa.RecordBatch], Any]


class ArrowFunction:
    """Calls a user's function for each batch, and casts its results to the output's schema."""

    def __init__(self, function: Transform, vertex: str, name: str, output: pa.Schema) -> None:
        self._function = function
        self._vertex = vertex
        self._name = name
        self._output = output

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            try:
                found = self._function(batch)
            except Exception as error:
                raise UserCodeError.raised(error, self._vertex, self._name) from error
            yield from self._checked(found)

    def _checked(self, found: Any) -> Iterator[pa.RecordBatch]:
        if found is None:
            return
        if isinstance(found, pa.RecordBatch):
            found = pa.Table.from_batches([found])
        if not isinstance(found, pa.Table):
            raise self._gave(
                f"a {type(found).__name__} is no pyarrow.RecordBatch, no pyarrow.Table and not None"
            )
        unknown = [name for name in found.column_names if name not in self._output.names]
        missing = [name for name in self._output.names if name not in found.column_names]
        if unknown or missing:
            raise self._gave(
                f"its columns are {', '.join(found.column_names)}, and output has "
                f"{', '.join(self._output.names)}"
            )
        columns = [self._cast(found.column(field.name), field) for field in self._output]
        yield from pa.table(columns, schema=self._output).to_batches()

    def _cast(self, column: Any, field: pa.Field) -> Any:
        try:
            return column.cast(field.type)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise self._gave(
                f"column {field.name!r} of output is {field.type}, and what was given is "
                f"{column.type}: {error}"
            ) from error

    def _gave(self, what: str) -> UserCodeError:
        return UserCodeError.gave(self._vertex, self._name, what)
