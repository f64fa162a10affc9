"""How busy this machine is."""

import psutil

_BUSY_PERCENT = 80.0


class MachineLoad:
    """The use of all processors since the last question."""

    def __init__(self) -> None:
        psutil.cpu_percent()

    def is_busy(self) -> bool:
        return float(psutil.cpu_percent()) > _BUSY_PERCENT
