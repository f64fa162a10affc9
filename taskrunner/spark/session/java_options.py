"""Options of the JVM that a session starts: its temporary directory, and how options are joined.

A JVM unpacks native libraries (RocksDB, lz4, snappy, zstd) and puts Spark's artifacts into its
temporary directory, and a killed JVM leaves them there. `HEADGATE_TEMPORARY` names a directory that
the server deletes when this process has ended.
"""

import os
import tempfile
from collections.abc import Mapping

DIRECTORY = "HEADGATE_TEMPORARY"
"""The environment variable that names the directory; unset: the JVM uses the machine's."""
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SOCKETS = "spark.python.unix.domain.socket.dir"


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


def with_options(chosen: Mapping[str, str], *options: str) -> dict[str, str]:
    """The settings with further options of the JVM, before those that are already there."""
    own = chosen.get(JAVA_OPTIONS, "")
    return {**chosen, JAVA_OPTIONS: " ".join([*map(quoted, options), own]).strip()}


def quoted(option: str) -> str:
    """The option as Spark reads it from a line of options: quoted if it has a space in it."""
    if not any(sign in " \t\"'\\" for sign in option):
        return option
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'
