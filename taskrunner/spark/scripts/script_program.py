"""Whole PySpark programs: run up to the point where they wait for their queries.

A script runs unchanged, with this process's session. Its `writeStream … start()` starts nothing:
each query is recorded with its frame and its writer, and becomes a region like any other, with a
checkpoint directory of Headgate. Session settings that the script must not decide are reset before
any query starts.
"""

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from jobmanager.core.graph.graph_document import OURS
from jobmanager.core.graph.scripts import Script
from jobmanager.core.ids import ArtifactId
from taskrunner import logs
from taskrunner.spark.compile import plan_states
from taskrunner.spark.compile.compiler import InvalidVertex
from taskrunner.spark.run.job_paths import JobPaths
from taskrunner.spark.scripts.script_writer import (
    DeclaredQueries,
    DeclaredQuery,
    RecordedWriter,
    ScriptWaits,
)
from taskrunner.spark.session.hadoop_path import hadoop_path

log = logs.get("script")
Queries = Mapping[str, RecordedWriter]


class ScriptFailed(Exception):
    """A script ended with an error before its queries were all declared."""


@dataclass(frozen=True, slots=True)
class Scripts:
    """The scripts of one job: each is run once for all of its queries."""

    spark: SparkSession
    path_of: Callable[[str], Path]
    """The file of an artifact."""
    data_root: Path
    _run: dict[tuple[str, tuple[str, ...]], Queries]

    def rows(self, vertex: Script) -> DataFrame:
        """The frame of a query, checked against its vertex. Raises `InvalidVertex`."""
        writer = self.writer(vertex)
        found = plan_states.look(writer.rows)
        for what, is_, should in (
            ("state", found.state, vertex.state),
            ("sources", len(found.sources), len(vertex.inputs)),
            ("output mode", writer.mode, str(vertex.output_mode)),
        ):
            if is_ != should:
                raise InvalidVertex(
                    vertex.id,
                    f"the query's {what} is {_shown(is_)} here and {_shown(should)} in the graph: "
                    "submit the script again",
                )
        return writer.rows

    def writer(self, vertex: Script) -> RecordedWriter:
        key = (vertex.script, vertex.arguments)
        if key not in self._run:
            try:
                path = self.path_of(vertex.script)
                self._run[key] = run(self.spark, path, vertex.arguments, self.data_root)
            except (ScriptFailed, OSError) as error:
                raise InvalidVertex(vertex.id, str(error)) from error
        queries = self._run[key]
        if vertex.query not in queries:
            named = ", ".join(queries) or "none"
            raise InvalidVertex(
                vertex.id, f"the script starts no query {vertex.query!r} here, only {named}"
            )
        return queries[vertex.query]


def scripts_of(spark: SparkSession, places: JobPaths) -> Scripts:
    return Scripts(
        spark, lambda one: places.artifacts.path_of(ArtifactId(one)), places.data_root, {}
    )


def run(
    spark: SparkSession, path: Path, arguments: Sequence[str], data_root: Path
) -> Mapping[str, RecordedWriter]:
    """The queries that a script declares, by name. Raises `ScriptFailed`."""
    queries: dict[str, RecordedWriter] = {}
    declared: list[DeclaredQuery] = []

    def start(writer: RecordedWriter) -> DeclaredQuery:
        name = writer.name or f"q{len(queries) + 1}"
        if name in queries:
            raise ScriptFailed(f"two queries are called {name!r}: give each a queryName of its own")
        queries[name] = writer
        declared.append(DeclaredQuery(name))
        return declared[-1]

    with ExitStack() as stack:
        stack.enter_context(_settings_kept(spark))
        stack.enter_context(_intercepted(spark, start, declared))
        _work_in(spark, data_root)
        # not reset: the script's functions are called with batches later, and may use it
        sys.argv = [path.name, *arguments]
        try:
            _execute(path)
        except ScriptWaits:
            pass
        except SystemExit as error:
            if error.code not in (None, 0):
                raise ScriptFailed(f"{path.name} ended with {error.code!r}") from error
        except ScriptFailed:
            raise
        except Exception as error:
            raise ScriptFailed(_telling(path, error)) from error
    if not queries:
        raise ScriptFailed(f"{path.name} starts no streaming query")
    return queries


def _execute(path: Path) -> None:
    module = ModuleType("__main__")
    module.__dict__.update(__file__=str(path), __name__="__main__")
    # kept as long as any function of the script: functions look up their names here
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    exec(code, module.__dict__)  # the user's own program, run on request


@contextmanager
def _intercepted(
    spark: SparkSession,
    start: Callable[[RecordedWriter], DeclaredQuery],
    declared: list[DeclaredQuery],
) -> Iterator[None]:
    real_streams = spark.streams

    def get_or_create(builder: Any) -> SparkSession:
        for name, value in getattr(builder, "_options", {}).items():
            _set(spark, name, value)
        return spark

    replaced: list[tuple[type, str, Any]] = [
        (ClassicDataFrame, "writeStream", property(lambda frame: RecordedWriter(frame, start))),
        (SparkSession.Builder, "getOrCreate", get_or_create),
        (SparkSession, "stop", lambda session: None),
        (SparkContext, "stop", lambda context: None),
        (SparkSession, "streams", property(lambda _: DeclaredQueries(declared, real_streams))),
    ]
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in replaced]
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _set(spark: SparkSession, name: str, value: Any) -> None:
    if name in ("spark.app.name", "spark.master", "spark.remote"):
        return
    if name.startswith(OURS) or not spark.conf.isModifiable(name):
        log.warning("setting_ignored", setting=name, value=str(value))
        return
    spark.conf.set(name, str(value))


@contextmanager
def _settings_kept(spark: SparkSession) -> Iterator[None]:
    """Resets these settings afterwards, whatever the script has set."""
    exact = [name for name in OURS if not name.endswith(".")]
    before = {name: spark.conf.get(name, None) for name in exact}
    held: dict[str, str] = {
        name: value for name, value in spark.conf.getAll.items() if name.startswith(OURS)
    }
    try:
        yield
    finally:
        now = [name for name in spark.conf.getAll if name.startswith(OURS)]
        for name in now:
            if name not in held:
                spark.conf.unset(name)
        for name, value in {**before, **held}.items():
            if value is not None and spark.conf.get(name, None) != value:
                log.warning("setting_put_back", setting=name, value=value)
                spark.conf.set(name, value)


def _work_in(spark: SparkSession, directory: Path) -> None:
    """Makes the script's relative paths relative to the data root, for Python and for Spark."""
    directory.mkdir(parents=True, exist_ok=True)
    os.chdir(directory)
    jvm: Any = spark._jvm
    files = jvm.org.apache.hadoop.fs
    local = files.FileSystem.getLocal(spark.sparkContext._jsc.hadoopConfiguration())
    place = files.Path(hadoop_path(directory))
    local.setWorkingDirectory(place)
    files.FileSystem.get(
        place.toUri(), spark.sparkContext._jsc.hadoopConfiguration()
    ).setWorkingDirectory(place)


def _telling(path: Path, error: Exception) -> str:
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    where = f"{path.name}, line {lines[-1]}" if lines else path.name
    return f"{where}: {type(error).__name__}: {' '.join(str(error).split())}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)
