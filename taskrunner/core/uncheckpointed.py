"""What a region would have to do again if it lost all since the last completed checkpoint."""

_MOST_BATCHES = 1000


class UncheckpointedWork:
    """Rows and time of the batches that no completed checkpoint covers yet."""

    def __init__(self) -> None:
        self._batches: dict[int, tuple[int, int]] = {}
        """By batch: rows read, and milliseconds that the batch took. In ascending order."""
        self._covered = -1

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self._batches.values())

    @property
    def busy_ms(self) -> int:
        return sum(spent for _, spent in self._batches.values())

    def add(self, batch: int, rows: int, busy_ms: int) -> None:
        """Count what Spark reports of a batch, which may be late: after its checkpoint."""
        if batch <= self._covered:
            return
        before = self._batches.get(batch, (0, 0))
        self._batches[batch] = before[0] + rows, before[1] + busy_ms
        if len(self._batches) > _MOST_BATCHES:
            self._merge_oldest()

    def cover(self, batch: int) -> None:
        """Forget the batches that a completed checkpoint covers: this batch and all before."""
        self._covered = max(self._covered, batch)
        self._batches = {
            number: work for number, work in self._batches.items() if number > self._covered
        }

    def _merge_oldest(self) -> None:
        """Count the oldest batch with the next: rather too much is shown than too little."""
        oldest, second = sorted(self._batches)[:2]
        rows, spent = self._batches.pop(oldest)
        more_rows, more_spent = self._batches[second]
        self._batches[second] = rows + more_rows, spent + more_spent
