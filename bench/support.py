"""Shared by the benchmarks: a server of their own, jobs with state of a chosen size, tables.

Machines are noisy. Each benchmark compares measurements within one run and reports ratios; the
absolute figures hold for one machine only.
"""

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from jobmanager.core.ids import FIRST_ATTEMPT, RegionId
from jobmanager.core.snapshots import layout
from tests.support.server import ServerProcess, eventually

PAYLOAD_BYTES = 1000
"""What one key keeps, about: it does not compress."""
REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "bench" / "results"
FLINK = REPOSITORY / ".venv" / "flink"
"""Where `make bench-flink` installs Flink."""
_FIGURES_SECONDS = 3.0
"""In which a server renews its lease, and its figures with it."""
_LONG = 3600
_MEBIBYTE = 2**20


def spark_checkpoint_dir(storage: Path, job: str, region: str) -> Path:
    """That of the job's first attempt."""
    home = storage / layout.named_job_directory(job)
    return home / layout.spark_checkpoint_dir(FIRST_ATTEMPT, RegionId(region))


@contextmanager
def a_server(*options: str) -> Iterator[ServerProcess]:
    with tempfile.TemporaryDirectory(prefix="hgbench", ignore_cleanup_errors=True) as name:
        server = ServerProcess(Path(name) / "server", *options)
        try:
            yield server.start()
        finally:
            server.clean_up()


def a_job_with_state(keys: int, rows_per_second: int, **changes: Any) -> dict[str, Any]:
    """A running aggregate over `keys` keys that go round and round, 1 kB each."""
    digests = ", ".join(f"sha2(concat(id % {keys}, '-{n}'), 256)" for n in range(16))
    return {
        "name": f"state of {keys} keys",
        "parallelism": 2,
        "checkpointing": {"interval": "1d", "timeout": "30m"},
        "vertices": [
            {
                "id": "rows",
                "op": "source",
                "connector": "generator",
                "rows_per_second": rows_per_second,
                "columns": {"k": f"id % {keys}", "payload": f"concat({digests})"},
            },
            {
                "id": "newest",
                "op": "aggregate",
                "inputs": ["rows"],
                "key": ["k"],
                "aggregate": {"payload": "max(payload)"},
            },
            {"id": "out", "op": "sink", "inputs": ["newest"], "connector": "blackhole"},
        ],
        **changes,
    }


def until_filled(server: ServerProcess, job: str, rows: int) -> None:
    """Waits until the job has read so many rows."""

    def read() -> bool:
        regions = server.status(job)["region_states"]
        return bool(regions) and sum(one["input_rows"] for one in regions) >= rows

    eventually(read, within=_LONG, explain=lambda: str(server.status(job)))


def until_primed(server: ServerProcess) -> None:
    """Returns when a process with a primed Spark session waits for a job, new or used before."""
    time.sleep(_FIGURES_SECONDS)  # so that a process that was just taken is not counted any more

    def primed() -> bool:
        warm = server.get("/v1/jobmanagers")["items"][0]["warm"] or {}
        return bool(warm.get("primed"))

    eventually(primed, within=600)


def operation(server: ServerProcess, operation_id: str) -> dict[str, Any]:
    """The operation, when it has ended."""
    path = f"/v1/operations/{operation_id}"
    eventually(lambda: server.get(path)["status"] != "in_progress", within=_LONG)
    found: dict[str, Any] = server.get(path)
    assert found["status"] == "completed", found["error"]
    return found


def seconds(phase: dict[str, Any]) -> float:
    began, ended = (datetime.fromisoformat(phase[name]) for name in ("started_at", "ended_at"))
    return (ended - began).total_seconds()


def machine() -> dict[str, Any]:
    """What figures depend on. The load is that of the minute before: below 0.5 if it was quiet."""
    return {
        "cores": os.cpu_count(),
        "memory_mib": psutil.virtual_memory().total // _MEBIBYTE,
        "system": platform.platform(),
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "load_before": round(os.getloadavg()[0], 2),
    }


_MACHINE = machine()


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def table(header: Sequence[str], rows: Sequence[Sequence[object]], name: str = "") -> None:
    """Writes a Markdown table, as it goes into docs/benchmarks.md, and with a name the same as JSON
    with facts of the machine, `bench/results/{name}.json`.
    """
    for row in (header, ["---"] * len(header), *rows):
        sys.stdout.write("| " + " | ".join(str(one) for one in row) + " |\n")
    if name:
        cells = [[str(one) for one in row] for row in rows]
        save(name, {"header": list(header), "rows": cells})


def save(name: str, found: dict[str, Any]) -> None:
    """Writes `bench/results/{name}.json`."""
    RESULTS.mkdir(exist_ok=True)
    document = {"at": today(), "machine": _MACHINE, **found}
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    say(f"written: bench/results/{name}.json")


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
