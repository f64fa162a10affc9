"""How busy this machine is."""

from collections import deque
from collections.abc import Callable

import psutil

_BUSY_PERCENT = 80.0
_QUESTIONS = 5
"""A batch leaves processors idle for moments, such as between its stages."""


class MachineLoad:
    """The use of all processors over the time between some questions."""

    def __init__(self, used_percent: Callable[[], float] = psutil.cpu_percent) -> None:
        """`used_percent` is the use since it was last called."""
        self._used_percent = used_percent
        self._last: deque[float] = deque(maxlen=_QUESTIONS)
        used_percent()

    def is_busy(self) -> bool:
        self._last.append(float(self._used_percent()))
        return sum(self._last) / len(self._last) > _BUSY_PERCENT
