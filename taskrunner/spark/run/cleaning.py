"""Cleans a Spark session behind a job, and looks at what is left.

Whatever a job has defined belongs to its session, and goes with it: the next job gets a new session
in the same JVM. What the sessions of a JVM share is cleaned here: cached data, state stores, Python
workers, artifacts and accumulators.
"""

import gc
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from taskrunner.core.process_traces import ProcessTraces, thread_names
from taskrunner.spark.compile import accumulators
from taskrunner.spark.session import java_options
from taskrunner.spark.session.session import WarmSession
from taskrunner.spark.session.shipped_artifacts import shipped

_SETTLE_SECONDS = 3.0
"""How long the last threads and jobs of a query may take to end."""
_LOOK_AGAIN_SECONDS = 0.05
_COLLECT_AT_SHARE = 0.25
"""Of the heap: below, a collection would only make the next job wait."""
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.StateStore"


class NotCleaned(Exception):
    """Something of the last job is left in the process."""


def clean(session: WarmSession) -> None:
    """Removes everything of the last job. Raises `NotCleaned`, or an error of Spark."""
    spark = session.spark
    if spark is None or spark.sparkContext._jsc.sc().isStopped():
        raise NotCleaned("there is no session any more")
    for query in spark.streams.active:
        query.stop()
    _await_rest(spark)
    _free_shared(spark)
    shipped.forget()
    accumulators.forget()
    end_workers(spark)
    spark = session.renew()
    context: Any = spark.sparkContext
    context._jsc.sc().setLocalProperties(context._jvm.java.util.Properties())
    heap = session.heap()
    if heap is None or heap.used_bytes > _COLLECT_AT_SHARE * heap.max_bytes:
        gc.collect()  # Python's references keep objects of the JVM alive
        context._jvm.java.lang.System.gc()  # which frees shuffle files and broadcasts too
    if spark.range(3).count() != 3:
        raise NotCleaned("the new session does not work")


def traces(session: WarmSession) -> ProcessTraces:
    """What is in the process now. Raises an error of Spark if the JVM does not answer."""
    spark = session.spark
    assert spark is not None
    heap = session.heap()
    context: Any = spark.sparkContext
    runtime = context._jvm
    threads = str(runtime.java.lang.Thread.getAllStackTraces().keySet().toString())
    return ProcessTraces(
        jvm_threads=thread_names(threads),
        python_threads=tuple(one.name for one in threading.enumerate()),
        heap_used_bytes=heap.used_bytes if heap else 0,
        heap_max_bytes=heap.max_bytes if heap else 1,
        resident_bytes=psutil.Process().memory_info().rss,
        file_bytes=_temporary_bytes(),
        active_jobs=len(context.statusTracker().getActiveJobsIds()),
        active_queries=len(spark.streams.active),
        cached=int(context._jsc.getPersistentRDDs().size()),
        tables=_shared_tables(spark),
        workers=len(_workers()),
    )


def end_workers(spark: SparkSession) -> None:
    """Ends all Python workers and their daemons. Spark starts new ones when it needs them."""
    found = _workers()
    _forget_workers(spark)
    for one in found:
        with suppress(psutil.Error):  # it has ended meanwhile
            one.kill()
    psutil.wait_procs(found, timeout=_SETTLE_SECONDS)


def _forget_workers(spark: SparkSession) -> None:
    """Spark has no call for this, except at its own end, and a worker that it still knows and that
    was killed fails the task that would use it.
    """
    context: Any = spark.sparkContext
    # by its class: to call a method of Spark's environment needs classes that are not there
    kind = context._jvm.java.lang.Class.forName("org.apache.spark.SparkEnv")
    known = kind.getDeclaredField("pythonWorkers")
    known.setAccessible(True)
    factories = known.get(context._jsc.sc().env())
    each = factories.valuesIterator()
    while each.hasNext():
        each.next().stop()
    factories.clear()


def _workers() -> list[psutil.Process]:
    """What Spark's JVM has started: this process itself starts only the JVM."""
    myself = psutil.Process()
    direct = {one.pid for one in myself.children()}
    return [one for one in myself.children(recursive=True) if one.pid not in direct and _runs(one)]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _await_rest(spark: SparkSession) -> None:
    """Waits for the end of Spark jobs: a query that was stopped has cancelled its own."""
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + _SETTLE_SECONDS
    while tracker.getActiveJobsIds():
        if time.monotonic() > deadline:
            raise NotCleaned("a Spark job of the last job goes on")
        time.sleep(_LOOK_AGAIN_SECONDS)


def _free_shared(spark: SparkSession) -> None:
    spark.catalog.clearCache()
    context: Any = spark.sparkContext
    for one in list(context._jsc.getPersistentRDDs().values()):
        one.unpersist(True)
    getattr(context._jvm, _STATE_STORE).stop()


def _shared_tables(spark: SparkSession) -> tuple[str, ...]:
    """What is in the catalog that all sessions share; a new JVM has one empty database there."""
    shared: Any = spark._jsparkSession.sharedState()
    catalog = shared.externalCatalog()
    found = [str(one) for one in _items(catalog.listDatabases()) if str(one) != "default"]
    found += [str(one) for one in _items(catalog.listTables("default"))]
    found += [str(one) for one in _items(shared.globalTempViewManager().listViewNames("*"))]
    return tuple(found)


def _items(scala_sequence: Any) -> list[Any]:
    return [scala_sequence.apply(number) for number in range(scala_sequence.size())]


def _temporary_bytes() -> int:
    directory = os.environ.get(java_options.DIRECTORY)
    total = 0
    for path, _, files in os.walk(directory) if directory else ():
        for name in files:
            with suppress(OSError):  # deleted meanwhile
                total += Path(path, name).lstat().st_size
    return total
