"""Checks, before an attempt starts, that every executor sees the driver's directories."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from jobmanager.core.snapshots.layout import temporary_name
from taskrunner import logs
from taskrunner.core.directory_proof import (
    DirectoryNotShared,
    Sighting,
    executors_seen,
    needs_proof,
    not_shared,
)
from taskrunner.snapshots import durable

_MOST_ROUNDS = 5
_TASKS_AN_EXECUTOR = 2
_NO_PYTHON = "Cannot run program"
Found = tuple[str, str, dict[str, str]]
log = logs.get("directories")


def prove_directories(spark: SparkSession, directories: Iterable[Path]) -> None:
    """Raises `DirectoryNotShared` if an executor does not see one of the directories."""
    if not needs_proof(str(spark.sparkContext.master)):
        return
    token = uuid4().hex
    files = {str(one): one / temporary_name("proof", token) for one in sorted(set(directories))}
    try:
        for file in files.values():
            durable.write(file, token)
        sightings = _ask_executors(spark, {name: str(file) for name, file in files.items()})
    finally:
        for file in files.values():
            with suppress(OSError):
                file.unlink()
    if wrong := not_shared(dict.fromkeys(files, token), sightings):
        raise DirectoryNotShared(wrong)


def _ask_executors(spark: SparkSession, files: Mapping[str, str]) -> list[Sighting]:
    """What the executors find. Spark decides where a task runs, so the check is repeated a few
    times until all executors have answered.
    """
    context = spark.sparkContext
    sightings: list[Sighting] = []
    for _ in range(_MOST_ROUNDS):
        tasks = max(_executors(spark), context.defaultParallelism, 1) * _TASKS_AN_EXECUTOR
        try:
            found = context.parallelize(range(tasks), tasks).mapPartitions(_look(files)).collect()
        except Py4JJavaError as error:
            if _NO_PYTHON not in str(error):
                raise
            # a SQL-only job runs without Python; its batches are still compared with their files
            log.warning("directories_not_proved", reason="executors have no Python to look with")
            return []
        sightings += [Sighting(*one) for one in found]
        if executors_seen(sightings) >= _executors(spark):
            return sightings
    log.warning(
        "directories_proved_in_part", asked=executors_seen(sightings), executors=_executors(spark)
    )
    return sightings


def _executors(spark: SparkSession) -> int:
    """The current number of executors, without the driver."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def _look(files: Mapping[str, str]) -> Callable[[Iterable[int]], Iterator[Found]]:
    """The task: reads all files. It is shipped by value, so an executor needs Python but not this
    package.
    """
    wanted = dict(files)

    def look(partition: Iterable[int]) -> Iterator[Found]:
        import os
        import socket
        import time
        from pathlib import Path

        found = {}
        for name, file in wanted.items():
            try:
                found[name] = Path(file).read_text(encoding="utf-8")
            except OSError as error:
                found[name] = f"{type(error).__name__}: {error.strerror}"
        time.sleep(0.05)  # long enough for the next task to go to another executor
        # all Python workers of an executor are children of one process
        yield socket.gethostname(), str(os.getppid()), found

    return look
