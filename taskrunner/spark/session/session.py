"""The Spark session of a runner: settings, start and end."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from jobmanager.protocol.messages import JvmFigures
from taskrunner import logs
from taskrunner.spark.session import (
    class_archive,
    connector_jars,
    java_options,
    state_memory,
)
from taskrunner.spark.session.compiled_java import BATCH_FILES, java_object
from taskrunner.spark.session.jvm_figures import read_jvm_figures, read_jvm_threads

Session = SparkSession
"""For modules that only pass the session on."""
_STREAMING = "org.apache.spark.sql.execution.streaming"
_STATE_STORE = "spark.sql.streaming.stateStore"
_JVM_EXIT_SECONDS = 10
_NAME = "spark.app.name"
"""Only the application's name: a session keeps the name it was opened with."""
log = logs.get("session")

STREAMING_SETTINGS: Mapping[str, str] = {
    f"{_STATE_STORE}.providerClass": f"{_STREAMING}.state.RocksDBStateStoreProvider",
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE_STORE}.checkpointFormatVersion": "2",
    # the default file manager forks a process for each file on a local disk
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # counting rows costs a third of a state-heavy job
    f"{_STATE_STORE}.rocksdb.trackTotalNumberOfRows": "false",
    # a snapshot more often: fewer changelogs in a checkpoint
    f"{_STATE_STORE}.maintenanceInterval": "20s",
    "spark.sql.streaming.numRecentProgressUpdates": "32",
    # of real-time mode: rows wait at most this long for others on their way to a keyed vertex
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5",
}

WITH_RESTRICTED_PATHS: Mapping[str, str] = {"spark.sql.runSQLOnFiles": "false"}
"""Else a query reads any file: SELECT * FROM text.`/etc/passwd`."""


def settings(
    *,
    name: str,
    master: str,
    parallelism: int,
    extra: Mapping[str, str],
    restricts_paths: bool = False,
    jars: Sequence[str] = (),
) -> dict[str, str]:
    """All settings of a job's session; `extra` are the job's own settings, which win, except over
    the settings that restrict SQL to allowed paths. `jars` are the paths of connectors' jars.
    """
    chosen = {
        "spark.app.name": name,
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(parallelism),
        # the type that other readers expect; Spark's default is the old INT96
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **STREAMING_SETTINGS,
    }
    if not _is_on_this_machine(master):
        # executors on other machines must find the driver: Spark's own choice, or the job's
        del chosen["spark.driver.host"], chosen["spark.driver.bindAddress"]
    asked = {**chosen, **extra, **(WITH_RESTRICTED_PATHS if restricts_paths else {})}
    if jars:
        asked = connector_jars.with_jars(asked, jars)
    return state_memory.bounds(asked, cores=os.cpu_count() or 1) | asked


def open_session(chosen: Mapping[str, str], *, records: bool = False) -> SparkSession:
    """Starts the JVM and the session. Python workers use this same interpreter. `records`: the JVM
    records its classes, so that an archive of them can be written.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder
    is_local = _is_on_this_machine(chosen.get("spark.master", "local"))
    options = java_options.with_temporary_directory(
        java_options.with_collector(chosen), is_local=is_local
    )
    for key, value in class_archive.with_archive(options, records=records).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def close_session(spark: SparkSession) -> None:
    """Stops Spark and ends its JVM. A session opened later gets a new JVM."""
    gateway: Any = SparkContext._gateway
    try:
        spark.stop()
    finally:
        _forget()
        if gateway is not None:
            _end_jvm(gateway)


def spare_session(master: str, jars: Sequence[str] = ()) -> "WarmSession":
    """A session for any job, not primed yet."""
    session = WarmSession()
    chosen = settings(name="headgate", master=master, parallelism=2, extra={}, jars=jars)
    session.open(chosen, records=True)
    return session


def prime_session(session: "WarmSession", is_wanted: Callable[[], bool]) -> None:
    """Primes a session. What is left of that is skipped once `is_wanted` says that a job waits."""
    from taskrunner.spark.session.priming import prime

    spark = session.spark
    assert spark is not None
    steps = (
        ("primed", prime),
        ("compiled", lambda spark: java_object(spark, BATCH_FILES)),
        ("imported", _import_rest),
        ("archived", class_archive.save),
    )
    for name, prepare in steps:
        if is_wanted():
            break
        try:
            prepare(spark)
        except Exception as error:  # the first batch is only slower without priming
            log.warning(f"not_{name}", reason=f"{type(error).__name__}: {error}")


def _import_rest(spark: SparkSession) -> None:
    """What only some jobs need, and takes a second."""
    import_module("pandas")


@dataclass(frozen=True, slots=True)
class Heap:
    """The JVM's own view."""

    used_bytes: int
    max_bytes: int
    java_version: str
    slots: int
    """Tasks at the same time."""


class WarmSession:
    """The session of a runner, kept from one attempt to the next if the settings allow it."""

    is_shared = False
    """Whether other jobs run in the same Spark."""

    def __init__(self) -> None:
        self._spark: SparkSession | None = None
        self._chosen: Mapping[str, str] = {}
        self._first_chosen: Mapping[str, str] = {}
        """The settings that the JVM was started with: every new session in it begins with them."""

    @property
    def spark(self) -> SparkSession | None:
        """The session; None: there is none."""
        return self._spark

    @property
    def master(self) -> str | None:
        """The master of the session; None: there is no session."""
        return None if self._spark is None else self._chosen.get("spark.master")

    def open(self, chosen: Mapping[str, str], *, records: bool = False) -> SparkSession:
        """A session with these settings: the existing one, or a new one. A session that has more
        jars than are needed is as good.
        """
        if self._spark is not None:
            chosen = connector_jars.keeping(self._chosen, chosen)
        if self._spark is not None and not self._can_become(self._spark, chosen):
            self.close()
        if self._spark is None:
            self._spark = open_session(chosen, records=records)
            self._first_chosen = dict(chosen)
        else:
            self._become(self._spark, chosen)
        self._chosen = dict(chosen)
        return self._spark

    def renew(self) -> SparkSession:
        """Takes a new session in the same JVM: temporary views, functions, settings and listeners
        of the session before are gone. Raises an error if there is no session.
        """
        assert self._spark is not None
        # PySpark makes a session the default one only if it knows no other
        SparkSession._instantiatedSession = None
        SparkSession._activeSession = None
        self._spark = self._spark.newSession()
        self._chosen = self._first_chosen
        return self._spark

    def heap(self) -> Heap | None:
        """The heap of the JVM; None: there is no JVM, or it does not answer."""
        spark = self._spark
        if spark is None:
            return None
        try:
            runtime: Any = spark.sparkContext._jvm
            found = runtime.java.lang.Runtime.getRuntime()
            used = found.totalMemory() - found.freeMemory()
            return Heap(
                used_bytes=used,
                max_bytes=found.maxMemory(),
                java_version=str(runtime.java.lang.System.getProperty("java.version")),
                slots=spark.sparkContext.defaultParallelism,
            )
        except Exception as error:  # the JVM is ending, or has ended
            log.debug("heap_not_read", reason=f"{type(error).__name__}: {error}")
            return None

    def jvm_figures(self) -> JvmFigures | None:
        """What the JVM says of itself; None: there is no JVM, or it does not answer."""
        spark = self._spark
        if spark is None:
            return None
        try:
            return read_jvm_figures(spark.sparkContext._jvm)
        except Exception as error:  # the JVM is ending, or has ended
            log.debug("jvm_not_read", reason=f"{type(error).__name__}: {error}")
            return None

    def jvm_threads(self) -> str | None:
        """What the threads of the JVM do, as JSON; None: there is no JVM, or it does not answer."""
        spark = self._spark
        if spark is None:
            return None
        try:
            return read_jvm_threads(spark.sparkContext._jvm)
        except Exception as error:  # the JVM is ending, or cannot
            log.warning("threads_not_read", reason=f"{type(error).__name__}: {error}")
            return None

    def close(self) -> None:
        spark, self._spark = self._spark, None
        if spark is None:
            return
        try:
            close_session(spark)
        except Exception as error:  # the JVM may have failed
            log.warning("session_not_closed", reason=f"{type(error).__name__}: {error}")

    def _can_become(self, spark: SparkSession, chosen: Mapping[str, str]) -> bool:
        try:
            is_there = not spark.sparkContext._jsc.sc().isStopped()
            changed = self._changed(chosen)
            return (
                is_there
                and not changed & state_memory.OF_THE_JVM
                and all(map(spark.conf.isModifiable, changed))
            )
        except Exception as error:  # the JVM is gone
            log.warning("session_lost", reason=f"{type(error).__name__}: {error}")
            return False

    def _become(self, spark: SparkSession, chosen: Mapping[str, str]) -> None:
        for key in self._changed(chosen):
            if key in chosen:
                spark.conf.set(key, chosen[key])
            else:
                spark.conf.unset(key)

    def _changed(self, chosen: Mapping[str, str]) -> set[str]:
        keys = (self._chosen.keys() | chosen.keys()) - {_NAME}
        return {key for key in keys if self._chosen.get(key) != chosen.get(key)}


def _forget() -> None:
    """Removes the session that PySpark keeps in its classes. If the JVM was killed, PySpark's own
    `stop` does not get that far, and the next session would be the dead one.
    """
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None


def _end_jvm(gateway: Any) -> None:
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    process.stdin.close()  # the JVM takes this as the end of its parent
    try:
        process.wait(_JVM_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_on_this_machine(master: str) -> bool:
    return master.startswith("local") or "//127.0.0.1" in master or "//localhost" in master
