"""Whether runners whose attempts start move data, as their heartbeats say. Kept in memory only: a
new leader begins to count anew.
"""

from datetime import datetime

from jobmanager.core.ids import RunnerId

_MOST = 10_000


class StartProgress:
    def __init__(self) -> None:
        self._moved: dict[RunnerId, tuple[int, datetime]] = {}

    def note(self, runner: RunnerId, data_moved: int | None, now: datetime) -> None:
        """`data_moved` is what the runner said: a number that grows as it moves data. None: its
        attempt runs.
        """
        if data_moved is None:
            self._moved.pop(runner, None)
            return
        known = self._moved.get(runner)
        if known is None or known[0] != data_moved:
            if len(self._moved) >= _MOST:
                self._moved.clear()
            self._moved[runner] = data_moved, now

    def moved_at(self, runner: RunnerId) -> datetime | None:
        known = self._moved.get(runner)
        return known[1] if known else None
