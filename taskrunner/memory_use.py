"""The memory that a runner uses: that of all its processes, and the heap of its JVM."""

from contextlib import suppress

import psutil

from jobmanager.protocol.messages import JvmFigures, RunnerMemory
from taskrunner.spark.session.session import WarmSession

_DATA_STEP = 16 * 2**20
"""Larger than all that a runner writes that only waits: logs, heartbeats."""


class MemoryUse:
    """Measured when asked."""

    def __init__(self, session: WarmSession) -> None:
        self._session = session
        self._myself = psutil.Process()

    def measure(self) -> RunnerMemory | None:
        try:
            resident = self._resident()
        except psutil.Error:
            return None
        heap = self._session.heap()
        return RunnerMemory(
            resident_bytes=resident,
            heap_used_bytes=heap.used_bytes if heap else None,
            heap_max_bytes=heap.max_bytes if heap else None,
            java_version=heap.java_version if heap else None,
            slots=heap.slots if heap else None,
            jvm=self._jvm(),
        )

    def _jvm(self) -> JvmFigures | None:
        figures = self._session.jvm_figures()
        if figures is None:
            return None
        spent = 0.0
        for process in self._processes():
            with suppress(psutil.Error):  # the process has ended meanwhile
                times = process.cpu_times()
                spent += times.user + times.system
        machine = psutil.virtual_memory().total
        more = {"cpu_time_ns": int(spent * 1e9), "physical_bytes": machine}
        return figures.model_copy(update=more)

    def data_moved(self) -> int | None:
        """How much data all processes have read and written, in steps of 16 MiB."""
        try:
            total = sum(_data_of(one) for one in self._processes())
        except psutil.Error:
            return None
        return total // _DATA_STEP

    def _processes(self) -> list[psutil.Process]:
        return [self._myself, *self._myself.children(recursive=True)]

    def _resident(self) -> int:
        total: int = self._myself.memory_info().rss
        for child in self._myself.children(recursive=True):
            with suppress(psutil.Error):  # the process has ended meanwhile
                total += child.memory_info().rss
        return total


def _data_of(process: psutil.Process) -> int:
    """Also through pipes and sockets, and from memory where the kernel has a file already."""
    try:
        counted = process.io_counters()
    except psutil.Error:  # it has ended meanwhile
        return 0
    return int(counted.read_chars + counted.write_chars)
