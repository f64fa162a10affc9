"""The output rows of a call, as one frame."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from taskrunner.keyed.windows.contents import Results
from taskrunner.keyed.windows.spec import LATE, WindowSpec


class Emission:
    """Collects results and late rows."""

    def __init__(self, spec: WindowSpec) -> None:
        self._names = spec.output
        self._late_columns = spec.late_columns
        self._results: list[tuple[Any, ...]] = []
        self._late: list[tuple[Any, ...]] = []

    def add(self, results: Results) -> None:
        self._results.extend(results)

    def add_late(self, columns: Sequence[list[Any]], begin: int, end: int) -> None:
        if self._late_columns is not None and begin < end:
            picked = (columns[at][begin:end] for at in self._late_columns)
            self._late.extend(zip(*picked, strict=True))

    def frame(self) -> pd.DataFrame:
        rows = self._results
        if self._late_columns is not None:
            width = len(self._late_columns)
            none = (None,) * (len(self._names) - width - 1)
            rows = [(*row, None, *(None,) * width) for row in rows]
            rows += [(*none, LATE, *row) for row in self._late]
        return pd.DataFrame(rows, columns=list(self._names), dtype=object)
