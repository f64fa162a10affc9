"""What the JVM of a runner says of itself: memory, buffers, threads, garbage collectors."""

from typing import Any

from jobmanager.protocol.messages import CollectorFigures, JvmFigures


def read_jvm_figures(jvm: Any) -> JvmFigures:
    """Ask the JVM's management beans: some fifty calls of a fraction of a millisecond each."""
    beans = jvm.java.lang.management.ManagementFactory
    memory, system = beans.getMemoryMXBean(), beans.getOperatingSystemMXBean()
    classes = beans.getClassLoadingMXBean()
    non_heap = memory.getNonHeapMemoryUsage()
    figures: dict[str, Any] = {
        "heap_committed_bytes": memory.getHeapMemoryUsage().getCommitted(),
        "non_heap_used_bytes": non_heap.getUsed(),
        "non_heap_committed_bytes": non_heap.getCommitted(),
        "non_heap_max_bytes": non_heap.getMax(),
        "threads": beans.getThreadMXBean().getThreadCount(),
        "classes_loaded": classes.getLoadedClassCount(),
        "classes_unloaded": classes.getUnloadedClassCount(),
        "cpu_cores": system.getAvailableProcessors(),
    }
    return JvmFigures(
        **figures,
        **_metaspace(beans),
        **_buffers(jvm, beans),
        garbage_collectors=[
            CollectorFigures(
                name=one.getName(), count=one.getCollectionCount(), time_ms=one.getCollectionTime()
            )
            for one in beans.getGarbageCollectorMXBeans()
        ],
    )


def read_jvm_threads(jvm: Any) -> str:
    """Return what all threads do, as JSON, by two calls: Spark's own dump for its web pages. The
    JVM's management beans would need a call for each thread.
    """
    mapper = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
    return str(mapper.writeValueAsString(jvm.org.apache.spark.util.Utils.getThreadDump()))


def _metaspace(beans: Any) -> dict[str, int]:
    for pool in beans.getMemoryPoolMXBeans():
        if pool.getName() == "Metaspace":
            usage = pool.getUsage()
            return {
                "metaspace_used_bytes": usage.getUsed(),
                "metaspace_committed_bytes": usage.getCommitted(),
                "metaspace_max_bytes": usage.getMax(),
            }
    return {}


def _buffers(jvm: Any, beans: Any) -> dict[str, int]:
    """Memory outside of the heap, for input and output."""
    kind = jvm.java.lang.Class.forName("java.lang.management.BufferPoolMXBean")
    found = {}
    for pool in beans.getPlatformMXBeans(kind):
        name = pool.getName()
        if name in ("direct", "mapped"):
            found[f"{name}_count"] = pool.getCount()
            found[f"{name}_used_bytes"] = pool.getMemoryUsed()
            found[f"{name}_capacity_bytes"] = pool.getTotalCapacity()
    return found
