"""Options of the JVM that a session starts: its temporary directory, its garbage collector, and how
options are joined.

A JVM unpacks native libraries (RocksDB, lz4, snappy, zstd) and puts Spark's artifacts into its
temporary directory, and a killed JVM leaves them there. `HEADGATE_TEMPORARY` names a directory that
the server deletes when this process has ended.
"""

import os
import re
import tempfile
from collections.abc import Mapping

from taskrunner.core.memory_sizes import megabytes

DIRECTORY = "HEADGATE_TEMPORARY"
"""The environment variable that names the directory; unset: the JVM uses the machine's."""
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SOCKETS = "spark.python.unix.domain.socket.dir"
_HEAP = "spark.driver.memory"
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_MORE_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Environment variables with options for every JVM."""
LARGE_HEAP_MEGABYTES = 8 * 1024
"""From this size on, a collection that stops all threads would take too long."""


def with_temporary_directory(chosen: Mapping[str, str], *, is_local: bool) -> dict[str, str]:
    """The settings of a session whose JVM keeps its temporary files in the runner's directory. The
    job's own options come last, so they win.
    """
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return dict(chosen)
    # Without a file of statistics in /tmp, which no option moves elsewhere.
    options = (f"-Djava.io.tmpdir={directory}", "-XX:+PerfDisableSharedMem")
    made = with_options(chosen, *options)
    if is_local:  # executors on other machines do not have this directory
        made.setdefault(_SOCKETS, tempfile.gettempdir())
    return made


def with_collector(chosen: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session whose JVM collects garbage with all threads at once, without help
    from threads beside the tasks: batches take five to ten per cent less time than with Java's
    default. Not for large heaps, and not if a collector is chosen already: a JVM takes only one.
    """
    options = [chosen.get(JAVA_OPTIONS, ""), *(os.environ.get(one, "") for one in _MORE_OPTIONS)]
    is_large = megabytes(chosen.get(_HEAP, "")) >= LARGE_HEAP_MEGABYTES
    if is_large or any(map(_COLLECTOR.search, options)):
        return dict(chosen)
    return with_options(chosen, "-XX:+UseParallelGC")


def with_options(chosen: Mapping[str, str], *options: str) -> dict[str, str]:
    """The settings with further options of the JVM, before those that are already there."""
    own = chosen.get(JAVA_OPTIONS, "")
    return {**chosen, JAVA_OPTIONS: " ".join([*map(quoted, options), own]).strip()}


def quoted(option: str) -> str:
    """The option as Spark reads it from a line of options: quoted if it has a space in it."""
    if not any(sign in " \t\"'\\" for sign in option):
        return option
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'
