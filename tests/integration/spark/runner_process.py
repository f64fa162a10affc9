"""A runner as a process, and the JobManager that a test directs it with."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil

from jobmanager.protocol.messages import (
    AttemptReport,
    BarrierAcks,
    CheckpointRef,
    Heartbeat,
    Message,
    RestorePointMessage,
    Run,
    SavepointTarget,
    Stop,
)
from tests.integration.spark.scripted_jobmanager import SECRET, ScriptedJobManager

REPOSITORY = Path(__file__).parents[3]
ROWS = 160
ROWS_A_SECOND = 10


def a_graph(**fields: Any) -> dict[str, Any]:
    """Windows over a bounded generator, and its rows themselves once checkpointed."""
    return {
        "name": "end to end",
        "parallelism": 2,
        "max_parallelism": 8,
        "vertices": [
            {
                "id": "orders",
                "op": "source",
                "connector": "generator",
                "rows_per_second": ROWS_A_SECOND,
                "rows": ROWS,
                "columns": {"id": "id", "ts": "ts", "k": "id % 5"},
                "watermark": {"column": "ts", "delay": "1s"},
            },
            {
                "id": "counts",
                "op": "window",
                "inputs": ["orders"],
                "key": ["k"],
                "time": "ts",
                "window": {"tumbling": "2s"},
                "aggregate": {"n": "count(*)", "total": "sum(id)"},
            },
            {
                "id": "out",
                "op": "sink",
                "inputs": ["counts"],
                "connector": "files",
                "format": "parquet",
                "path": "out",
            },
            {
                "id": "raw",
                "op": "sink",
                "inputs": ["orders"],
                "connector": "files",
                "format": "json",
                "path": "raw",
                "visibility": "checkpoint",
            },
        ],
        **fields,
    }


class Process:
    """A runner process, told what to do through a JobManager of its own."""

    def __init__(self, root: Path, job: UUID) -> None:
        self.jobmanager = ScriptedJobManager()
        self.job = job
        self._root = root
        address = root / "address.json"
        address.write_text(json.dumps({"urls": [self.jobmanager.url]}))
        temporary = root / "tmp"
        temporary.mkdir(exist_ok=True)
        with (root / "runner.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "taskrunner", "--runner-id", str(uuid4())]
                + ["--address-file", str(address)],
                cwd=REPOSITORY,
                env={**os.environ, "HEADGATE_TEMPORARY": str(temporary)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        assert self.process.stdin is not None
        with self.process.stdin as stdin:
            stdin.write(f"{SECRET}\n".encode())

    def run(
        self,
        attempt: int,
        graph: dict[str, Any],
        checkpoint: CheckpointRef | None = None,
        **fields: Any,
    ) -> None:
        body = Run(
            graph=graph,
            parallelism=fields.pop("parallelism", 2),
            spark_master="local[2]",
            storage=(self._root / "storage").as_uri(),
            data_root=str(self._root),
            checkpoint=checkpoint,
            **fields,
        )
        self.jobmanager.direct(self.job, attempt, body)

    def stop(self, attempt: int, name: str, *, keep_runner: bool = False) -> SavepointTarget:
        """Asks for a stop with the savepoint `savepoints/<name>`."""
        directory = self._root / "savepoints" / name
        savepoint = SavepointTarget(id=uuid4(), directory=directory.as_uri())
        stop = Stop(
            checkpoint=attempt,
            expires_at=datetime.now(UTC) + timedelta(minutes=2),
            savepoint=savepoint,
            drain=False,
            keep_runner=keep_runner,
        )
        self.jobmanager.direct(self.job, attempt, stop)
        return savepoint

    def report(self, *events: str, attempt: int | None = None) -> AttemptReport:
        def find(message: Message) -> AttemptReport | None:
            if not isinstance(message, AttemptReport) or message.body.event not in events:
                return None
            return message if attempt in (None, message.attempt) else None

        return self.jobmanager.wait_for(find, seconds=120)

    def reports(self) -> list[tuple[int, str]]:
        """All that was reported of attempts, in order."""
        said = self.jobmanager.said
        return [(m.attempt, m.body.event) for m in said if isinstance(m, AttemptReport)]

    def jvms(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if child.name() == "java"]

    def acks(self) -> BarrierAcks:
        return self.jobmanager.wait_for(lambda m: m if isinstance(m, BarrierAcks) else None)

    def wait_for_output(self, region: str, rows: int, attempt: int = 1) -> None:
        def find(message: Message) -> bool | None:
            if not isinstance(message, Heartbeat) or message.attempt != attempt:
                return None
            regions = message.regions
            return any(r.region == region and r.output_rows >= rows for r in regions) or None

        self.jobmanager.wait_for(find, seconds=120)

    def output_rows(self, region: str) -> int:
        """What the newest heartbeat says."""
        beats = [m for m in self.jobmanager.said if isinstance(m, Heartbeat)]
        return max(r.output_rows for m in beats for r in m.regions if r.region == region)

    def end(self) -> None:
        """Nothing of it is left, whatever the test did."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)
        self.jobmanager.close()


class Site:
    """Where the processes of one test work."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.job = uuid4()
        self.processes: list[Process] = []

    def launch(self) -> Process:
        process = Process(self.root, self.job)
        self.processes.append(process)
        return process


def restore_point(directory: Path) -> RestorePointMessage:
    return RestorePointMessage(
        root=directory.as_uri(), manifest="manifest.json", name="savepoint one"
    )


def ids(directory: Path) -> list[int]:
    """The ids in the JSON files of a sink."""
    lines = [line for path in directory.iterdir() for line in path.read_text().splitlines()]
    return [json.loads(line)["id"] for line in lines]
