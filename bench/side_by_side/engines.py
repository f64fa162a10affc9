"""The engines: each runs a line on given input, and says how long it took."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from bench.side_by_side.input_data import TABLES
from bench.side_by_side.lines import Line
from bench.support import REPOSITORY, a_server, until_primed
from jobmanager.core.ids import FIRST_ATTEMPT, RegionId
from jobmanager.core.snapshots import layout
from tests.support.server import ServerProcess, eventually

_LONG = 3600.0
_SETTLED_SECONDS = 1.0
"""A query that commits nothing for so long, and has read everything, is done."""
_ASK_SECONDS = 1.0
"""More often would cost the server time that the job needs."""
_WATERMARK = "1s"
_SINK = "out"


@dataclass(frozen=True, slots=True)
class Input:
    """Where the tables of a line are, and how many rows they have together."""

    format: str
    places: Mapping[str, str]
    """Table to its directory, or its topic."""
    rows: int
    servers: str = ""
    """Of Kafka; empty: the tables are files."""


class Engine(Protocol):
    name: str

    def run(self, line: Line, given: Input, output: Path) -> float:
        """Runs the line, writes results below `output`, and returns the seconds."""
        ...


class CannotRun(Exception):
    """The engine lacks something for this line, or has failed; the message says how."""


class Talk:
    """A process that is told and answers one JSON document a line. After it has failed it is
    started again.
    """

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self._command = command
        self._log = log
        self._environment = {**os.environ, **environment}
        self._start()

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer. Raises `CannotRun` if the process ends instead."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps(question) + "\n")
        stdin.flush()
        answer = self._hear()
        if answer is None:
            why = next((one for one in self._errors() if "Error" in one or "Exception" in one), "")
            self.end()
            self._start()
            raise CannotRun(f"it failed: {why.strip()[:200]}")
        return answer

    def end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            _close(pipe)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        with self._log.open("a") as file:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                cwd=REPOSITORY,
                env=self._environment,
            )
        self._said_before = self._log.stat().st_size
        assert self._hear() is not None, f"it does not start: {self._errors()[-30:]}"

    def _hear(self) -> dict[str, Any] | None:
        """The next answer; other lines, which libraries print, are left out."""
        stdout = self._process.stdout
        assert stdout is not None
        for line in stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        return None

    def _errors(self) -> list[str]:
        """What the process has said since its start."""
        return self._log.read_text(errors="replace")[self._said_before :].splitlines()


@dataclass
class PySpark:
    name: str
    talk: Talk

    def run(self, line: Line, given: Input, output: Path) -> float:
        answer = self.talk.ask(
            {
                "line": line.name,
                "format": given.format,
                "tables": given.places,
                "servers": given.servers,
                "checkpoint": str(output.with_name(f"{output.name}-checkpoint")),
                "output": str(output),
            }
        )
        return float(answer["seconds"])


@dataclass
class Headgate:
    server: ServerProcess
    name: str = "headgate"
    spark: Mapping[str, str] = field(default_factory=dict)

    def run(self, line: Line, given: Input, output: Path) -> float:
        until_primed(self.server)
        began = time.time()
        job = self.server.submit(self._document(line, given, output))
        ended = self._ended(job, given.rows)
        self.server.http.patch(f"/v1/jobs/{job}")
        self.server.until_state(job, "cancelled")
        return ended - began

    def _ended(self, job: str, rows: int) -> float:
        """When the last batch was committed, by the clock of the file system."""
        home = self.server.directory / "storage" / layout.named_job_directory(job)
        commits = home / layout.spark_checkpoint_dir(FIRST_ATTEMPT, RegionId(_SINK)) / "commits"

        def settled() -> float | None:
            time.sleep(_ASK_SECONDS)
            regions = self.server.status(job)["region_states"]
            if not regions or sum(one["input_rows"] for one in regions) < rows:
                return None
            if not all(one["is_idle"] for one in regions):
                return None
            newest = max(one.stat().st_mtime for one in commits.glob("[0-9]*"))
            return newest if time.time() - newest > _SETTLED_SECONDS else None

        return eventually(settled, _LONG, lambda: str(self.server.status(job)))

    def _document(self, line: Line, given: Input, output: Path) -> dict[str, Any]:
        sink = {"id": _SINK, "op": "sink", "inputs": ["result"], "connector": "blackhole"}
        if line.writes:
            sink |= {"connector": "files", "format": given.format, "path": str(output)}
        return {
            "name": f"{line.name} {output.name}",
            "parallelism": 2,
            "spark": {**line.spark, **self.spark},
            "vertices": [*(_source(one, given) for one in line.tables), *line.vertices, sink],
        }


def _source(name: str, given: Input) -> dict[str, Any]:
    table = TABLES[name]
    source = {
        "id": name,
        "op": "source",
        "format": given.format,
        "schema": table.schema(),
        "watermark": {"column": table.time, "delay": _WATERMARK},
    }
    if given.servers:
        place = {"connector": "kafka", "servers": given.servers, "topic": given.places[name]}
        return source | place | {"starting": "earliest"}
    return source | {"connector": "files", "path": given.places[name]}


@dataclass
class Flink:
    talk: Talk
    has_parquet: bool
    has_kafka: bool
    name: str = "flink"
    _number: int = 0

    def run(self, line: Line, given: Input, output: Path) -> float:
        if given.format == "parquet" and not self.has_parquet:
            raise CannotRun("Flink from PyPI has no Parquet")
        if given.servers and not self.has_kafka:
            raise CannotRun("Flink from PyPI has no Kafka")
        self._number += 1
        names = {one: f"{one}_{self._number}" for one in line.tables}
        query = line.flink
        for plain, own in names.items():
            query = query.replace(f"TABLE {plain}", f"TABLE {own}").replace(
                f"FROM {plain}", f"FROM {own}"
            )
            query = query.replace(f", {plain} ", f", {own} ")
        result = f"results_{self._number}"
        with_ = f"'connector'='filesystem','path'='{output.as_uri()}','format'='{given.format}'"
        if not line.writes:
            with_ = "'connector'='blackhole'"
        answer = self.talk.ask(
            {
                "tables": [
                    *(self._table(own, one, given) for one, own in names.items()),
                    f"CREATE VIEW {result}_query AS {query}",
                ],
                "insert": f"CREATE TABLE {result} WITH ({with_}) AS SELECT * FROM {result}_query",
                "afterwards": [
                    f"DROP VIEW {result}_query",
                    *(f"DROP TABLE {one}" for one in (result, *names.values())),
                ],
            }
        )
        return float(answer["seconds"])

    def _table(self, own: str, name: str, given: Input) -> str:
        table = TABLES[name]
        columns = [
            f"{column} {'TIMESTAMP(3)' if kind == 'TIMESTAMP' else kind}"
            for column, kind in table.columns
        ]
        columns += [
            "arrived AS PROCTIME()",
            f"WATERMARK FOR {table.time} AS {table.time} - INTERVAL '1' SECOND",
        ]
        if given.servers:
            options = {
                "connector": "kafka",
                "topic": given.places[name],
                "properties.bootstrap.servers": given.servers,
                "scan.startup.mode": "earliest-offset",
                "scan.bounded.mode": "latest-offset",
                "format": given.format,
            }
        else:
            options = {
                "connector": "filesystem",
                "path": Path(given.places[name]).as_uri(),
                "format": given.format,
            }
        chosen = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
        return f"CREATE TABLE {own} ({', '.join(columns)}) WITH ({chosen})"


@contextmanager
def engines(
    names: Sequence[str], directory: Path, flink: Path | None, connectors: Sequence[str]
) -> Iterator[list[Engine]]:
    """The engines, all of them started, in the order of their names."""
    with ExitStack() as stack:
        yield [stack.enter_context(_engine(name, directory, flink, connectors)) for name in names]


@contextmanager
def _engine(
    name: str, directory: Path, flink: Path | None, connectors: Sequence[str]
) -> Iterator[Engine]:
    log = directory / f"{name}.log"
    if name == "headgate":
        options = ["--warm-runners", "1", "--runner-reuse", "1000"]
        if connectors:
            options += ["--connectors", ",".join(connectors)]
        with a_server(*options) as server:
            yield Headgate(server)
        return
    if name == "flink":
        assert flink is not None
        with a_flink(flink, log, interval="10 s") as talk:
            has = " ".join(one.name for one in flink_jars(flink))
            yield Flink(talk, "parquet" in has, "kafka" in has)
        return
    kind = {"pyspark": "ours", "defaults": "defaults"}[name]
    talk = Talk([sys.executable, "-m", "bench.side_by_side.spark_program", kind], log, {})
    try:
        yield PySpark(name, talk)
    finally:
        talk.end()


@contextmanager
def a_flink(flink: Path, log: Path, interval: str) -> Iterator[Talk]:
    """Flink with a local cluster in one JVM: parallelism 2, a checkpoint each interval on disk (its
    default, the heap, takes no more than 5 MB of state), no restarts, else its defaults.
    """
    settings = {
        "parallelism.default": "2",
        "execution.checkpointing.interval": interval,
        "execution.checkpointing.dir": (log.parent / "flink-checkpoints").as_uri(),
        "restart-strategy.type": "none",
    }
    jars = flink_jars(flink)
    if jars:
        settings["pipeline.jars"] = ";".join(one.as_uri() for one in jars)
    program = str(Path(__file__).with_name("flink_program.py"))
    command = [str(flink / "bin" / "python"), program, json.dumps(settings)]
    talk = Talk(command, log, {"PYTHONPATH": ""})
    try:
        yield talk
    finally:
        talk.end()


def flink_jars(flink: Path) -> list[Path]:
    return sorted((flink / "jars").glob("*.jar"))


def _close(pipe: IO[str] | None) -> None:
    if pipe is not None:
        pipe.close()
