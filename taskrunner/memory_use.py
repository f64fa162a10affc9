"""The memory that a runner uses: that of all its processes, and the heap of its JVM."""

from contextlib import suppress

import psutil

from jobmanager.protocol.messages import RunnerMemory
from taskrunner.spark.session.session import WarmSession


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
        )

    def _resident(self) -> int:
        total: int = self._myself.memory_info().rss
        for child in self._myself.children(recursive=True):
            with suppress(psutil.Error):  # the process has ended meanwhile
                total += child.memory_info().rss
        return total
