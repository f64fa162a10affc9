"""An archive of Spark's classes in the form that the JVM has after loading (AppCDS).

A JVM that starts with the archive maps the classes instead of reading and checking thousands of
them: a cold start takes about a third less. The first primed session writes the archive, once,
into the directory named by `HEADGATE_CLASS_ARCHIVES`. Its name depends on the Java runtime and on
Spark's jars, so an archive that does not fit any more is never used. If the archive cannot be
written or used, sessions start as without it.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from taskrunner import logs
from taskrunner.spark.session import java_options

DIRECTORY = "HEADGATE_CLASS_ARCHIVES"
"""The environment variable that names the directory; unset: there is no archive."""
_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""Silences the JVM's warnings about each class that does not fit into an archive."""
_DRAFT_SECONDS = 3600
"""No process writes an archive for so long."""
log = logs.get("class_archive")


class NotArchived(Exception):
    """This Java runtime cannot write an archive, or has not written it."""


def with_archive(chosen: Mapping[str, str], *, records: bool = False) -> dict[str, str]:
    """The settings of a session that starts from the archive; or, if there is no archive yet and
    `records` is set, that records the classes for one.
    """
    archive = path()
    if archive is None:
        return dict(chosen)
    if archive.exists():
        option = f"-XX:SharedArchiveFile={archive}"
    elif records:
        option = "-XX:+RecordDynamicDumpInfo"
    else:
        return dict(chosen)
    return java_options.with_options(chosen, option, *_QUIET)


def save(spark: SparkSession) -> None:
    """Writes the archive of a session that recorded its classes, unless one exists. The caller only
    logs the errors that this raises.
    """
    archive = path()
    if archive is None or archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    draft = archive.parent / f".{archive.name}.{uuid4().hex}"
    try:
        _dump(spark, draft)
        draft.chmod(0o644)
        draft.rename(archive)  # whole, or not at all
    finally:
        draft.unlink(missing_ok=True)
    _delete_others(archive)
    log.info("archive_written", path=str(archive), bytes=archive.stat().st_size)


def is_there() -> bool:
    archive = path()
    return archive is not None and archive.exists()


def path() -> Path | None:
    """The path of the fitting archive, whether it exists or not; None: archives are off."""
    directory, java = os.environ.get(DIRECTORY), _java()
    if not directory or java is None:
        return None
    virtual_machine = java.parent.parent / "lib" / "server" / "libjvm.so"
    jars = Path(_find_spark_home(), "jars").glob("*.jar")
    key = fingerprint(virtual_machine if virtual_machine.exists() else java, jars)
    return Path(directory) / f"{key}.jsa"


def fingerprint(java: Path, jars: Iterable[Path]) -> str:
    """A fingerprint of the Java runtime and Spark's jars: an archive fits only the same one."""
    parts = [_identity(java), *sorted(map(_identity, jars))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def _java() -> Path | None:
    """The Java executable that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else shutil.which("java")
    return Path(found).resolve() if found else None


def _identity(path: Path) -> str:
    stat = path.stat()
    return f"{path} {stat.st_size} {stat.st_mtime_ns}"


def _dump(spark: SparkSession, to: Path) -> None:
    """Does the same as `jcmd VM.cds dynamic_dump`, which a plain runtime does not have. The class
    of the JVM's MBean server is not exported, so it is called through its interface.
    """
    gateway: Any = spark.sparkContext._gateway
    lang, management = gateway.jvm.java.lang, gateway.jvm.javax.management

    def array(kind: Any, *values: object) -> Any:
        made = gateway.new_array(kind, len(values))
        for place, value in enumerate(values):
            made[place] = value
        return made

    commands = management.ObjectName("com.sun.management:type=DiagnosticCommand")
    arguments = array(lang.Object, array(lang.String, "dynamic_dump", str(to)))
    types = ["javax.management.ObjectName", "java.lang.String"]
    types += ["[Ljava.lang.Object;", "[Ljava.lang.String;"]
    invoke = lang.Class.forName("javax.management.MBeanServer").getMethod(
        "invoke", array(lang.Class, *map(lang.Class.forName, types))
    )
    signature = array(lang.String, "[Ljava.lang.String;")
    beans = lang.management.ManagementFactory.getPlatformMBeanServer()
    invoke.invoke(beans, array(lang.Object, commands, "vmCds", arguments, signature))
    if not to.exists():
        raise NotArchived("the JVM wrote no archive")


def _delete_others(archive: Path) -> None:
    """Deletes archives of earlier Java or Spark versions, and drafts of processes that were killed
    while they wrote: each has over a hundred megabytes.
    """
    for other in archive.parent.glob("*.jsa"):
        if other != archive:
            other.unlink(missing_ok=True)
    for draft in archive.parent.glob(".*.jsa.*"):
        with suppress(FileNotFoundError):
            if time.time() - draft.stat().st_mtime > _DRAFT_SECONDS:
                draft.unlink()
