"""Several jobs in one JVM: each has a Spark session and a pool of the scheduler of its own.

What a job defines (views, functions, settings, listeners, queries) belongs to its session. Spark
shares its slots fairly between the pools, so that a job with much work does not hold up the others.
What the sessions of a JVM share is left alone while others use it: state stores of a query that has
ended unload themselves, and data that is cached belongs to one batch.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from jobmanager.protocol.messages import JvmFigures
from taskrunner import logs
from taskrunner.spark.session import callback_connections, java_options, state_memory
from taskrunner.spark.session.session import Heap, WarmSession, settings

_POOL = "spark.scheduler.pool"
_OF_PROCESS = frozenset({"spark.app.name", *state_memory.OF_THE_JVM})
"""Settings that are those of the process, whatever the job's own would be."""
_STOP_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 0.05
log = logs.get("session")


class SettingsDiffer(Exception):
    """A job needs settings that the JVM does not have, and that Spark cannot change any more."""


class QueriesGoOn(Exception):
    """Queries of a job cannot be stopped."""


class SharedSpark:
    """The JVM of a shared process. It is started for the first job. Any thread may ask."""

    def __init__(self, memory: str) -> None:
        """`memory` is the heap of the JVM, as Spark writes it."""
        self.whole = WarmSession()
        """For what belongs to the JVM as a whole."""
        self._of_jvm = {
            "spark.scheduler.mode": "FAIR",
            "spark.driver.memory": memory,
            # else some jobs would go on in a JVM that has no memory, and others would not
            java_options.JAVA_OPTIONS: "-XX:+ExitOnOutOfMemoryError",
        }
        self._chosen: Mapping[str, str] = {}
        self._lock = Lock()

    def new_session(self, chosen: Mapping[str, str]) -> SparkSession:
        """A new session with a job's settings. Raises `SettingsDiffer`."""
        with self._lock:
            if self.whole.spark is None:
                self._chosen = settings(
                    name="headgate",
                    master=chosen["spark.master"],
                    parallelism=1,
                    extra=self._of_jvm,
                )
                self.whole.open(self._chosen)
            assert self.whole.spark is not None
            spark = self.whole.spark.newSession()
        become(spark, self._with_own(self._chosen), self._with_own(chosen))
        return spark

    def has_ended(self) -> bool:
        """Whether the JVM was there, and has ended."""
        gateway: Any = SparkContext._gateway
        process = getattr(gateway, "proc", None) if self.whole.spark is not None else None
        return process is not None and process.poll() is not None

    def has_stopped(self) -> bool:
        """Whether the JVM was there, and has ended or stopped its Spark."""
        spark = self.whole.spark
        if spark is None:
            return False
        context: Any = spark.sparkContext._jsc
        try:
            return bool(context.sc().isStopped())
        except Exception as error:  # py4j has many
            log.warning("spark_not_asked", reason=f"{type(error).__name__}: {error}")
            return self.has_ended()

    def _with_own(self, chosen: Mapping[str, str]) -> dict[str, str]:
        left = {*_OF_PROCESS, *self._of_jvm}
        return {name: value for name, value in chosen.items() if name not in left}


def become(spark: SparkSession, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Change the settings of a session. Raises `SettingsDiffer`."""
    changed = {one for one in {*before, *after} if before.get(one) != after.get(one)}
    fixed = sorted(one for one in changed if not spark.conf.isModifiable(one))
    if fixed:
        raise SettingsDiffer(
            f"{', '.join(fixed)}: the shared process has other values, which cannot be changed any "
            "more; give the job a runner of its own (execution.runner: own)"
        )
    for name in changed:
        if name in after:
            spark.conf.set(name, after[name])
        else:
            spark.conf.unset(name)


class SessionInShared(WarmSession):
    """The session of one runner of a shared process, kept from one attempt to the next. Its pool is
    used by the thread that opens it, and by the queries that this thread starts.
    """

    is_shared = True

    def __init__(self, shared: SharedSpark, pool: str) -> None:
        super().__init__()
        self._shared = shared
        self._pool = pool
        self._own: SparkSession | None = None
        self._own_chosen: Mapping[str, str] = {}

    @property
    def spark(self) -> SparkSession | None:
        return self._own

    @property
    def master(self) -> str | None:
        return self._own_chosen.get("spark.master") if self._own is not None else None

    def open(self, chosen: Mapping[str, str], *, records: bool = False) -> SparkSession:
        if self._own is None:
            self._own = self._shared.new_session(chosen)
            callback_connections.begin(self._own)
        else:
            become(self._own, self._own_chosen, chosen)
        self._own_chosen = dict(chosen)
        self._own.sparkContext.setLocalProperty(_POOL, self._pool)
        _make_active(self._own)
        return self._own

    def renew(self) -> SparkSession:
        raise NotImplementedError("the session of a shared process is not given to another job")

    def heap(self) -> Heap | None:
        return self._shared.whole.heap()

    def jvm_figures(self) -> JvmFigures | None:
        return self._shared.whole.jvm_figures()

    def jvm_threads(self) -> str | None:
        return self._shared.whole.jvm_threads()

    def close(self) -> None:
        """Ends the queries of the session, and forgets the session. The JVM goes on. Raises
        `QueriesGoOn`.
        """
        spark, self._own = self._own, None
        if spark is None or self._shared.has_ended():
            return
        with suppress(Exception):
            self._own_chosen = {}
            for query in spark.streams.active:
                query.stop()
        deadline = time.monotonic() + _STOP_SECONDS
        while left := [str(one.id) for one in spark.streams.active]:
            if time.monotonic() > deadline:
                raise QueriesGoOn(f"queries go on: {', '.join(left)}")
            time.sleep(_LOOK_AGAIN_SECONDS)
        callback_connections.close_all(spark)


def _make_active(spark: SparkSession) -> None:
    """For what Spark looks up by the thread, such as how it reads the text of an expression."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    getattr(jvm, "org.apache.spark.sql.classic.SparkSession").setActiveSession(session)
