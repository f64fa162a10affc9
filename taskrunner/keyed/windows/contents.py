"""The contents of one window: intermediate results of its aggregate functions, or its rows.

Without an evictor the aggregate functions process rows as they arrive, and the window holds no
rows. An evictor or a user's function needs the rows themselves.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from taskrunner.keyed.windows import policies
from taskrunner.keyed.windows.aggregators import Columns, aggregator_of
from taskrunner.keyed.windows.spec import WindowSpec

Frame = tuple[Any, int | None, int | None, int | None]
"""The identity of a window: key, start, end (in microseconds), pane."""
Results = Iterable[tuple[Any, ...]]


class Contents(Protocol):
    def new(self) -> Any: ...

    def add(self, content: Any, columns: Columns, begin: int, end: int) -> None: ...

    def merge(self, content: Any, other: Any) -> Any: ...

    def emit(self, content: Any, frame: Frame) -> Results:
        """The output rows; rows that the evictor removes are deleted."""
        ...


def contents_of(spec: WindowSpec, evaluate: "Evaluate | None") -> Contents:
    """Chooses the kind of contents. `evaluate` is the user's function, if there is one."""
    if spec.keeps_rows:
        return _Rows(spec, evaluate)
    return _Folded(spec)


Evaluate = Callable[[list[list[Any]], Frame], Results]
"""A user's function over the rows of a window."""


class _Folded:
    """A list with the intermediate result of each aggregate function."""

    def __init__(self, spec: WindowSpec) -> None:
        self._folds = [aggregator_of(one) for one in spec.folds]
        self._start = [fold.start for fold in self._folds]
        # bound once, because they are called for every window of every key
        self._adds = [(at, fold.add) for at, fold in enumerate(self._folds)]
        self._results = [fold.result for fold in self._folds]

    def new(self) -> Any:
        return self._start.copy()

    def add(self, content: Any, columns: Columns, begin: int, end: int) -> None:
        for at, add in self._adds:
            content[at] = add(content[at], columns, begin, end)

    def merge(self, content: Any, other: Any) -> Any:
        return [
            fold.merge(one, another)
            for fold, one, another in zip(self._folds, content, other, strict=True)
        ]

    def emit(self, content: Any, frame: Frame) -> Results:
        key, start, end, pane = frame
        results = [result(kept) for result, kept in zip(self._results, content)]  # noqa: B905
        if pane is not None:
            return ((*key, pane, *results),)
        return ((*key, start, end, *results),)


class _Rows:
    """A list of columns."""

    def __init__(self, spec: WindowSpec, evaluate: Evaluate | None) -> None:
        self._width = spec.buffered
        self._evictor = spec.evictor
        self._evaluate = evaluate
        self._folded = _Folded(spec)

    def new(self) -> Any:
        return [[] for _ in range(self._width)]

    def add(self, content: Any, columns: Columns, begin: int, end: int) -> None:
        for at in range(self._width):
            content[at].extend(columns[at][begin:end])
        if self._evictor is not None:
            content[:] = policies.trim(self._evictor, content)

    def merge(self, content: Any, other: Any) -> Any:
        return [one + another for one, another in zip(content, other, strict=True)]

    def emit(self, content: Any, frame: Frame) -> Results:
        if self._evictor is not None:
            content[:] = policies.evict(self._evictor, content)
        if self._evaluate is not None:
            return self._evaluate(content, frame)
        folded = self._folded.new()
        self._folded.add(folded, content, 0, len(content[0]))
        return self._folded.emit(folded, frame)
