"""The `headgate` command against a real server and a real job, and the demo as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.server import ServerProcess, eventually

JOB = {
    "name": "shown",
    "checkpointing": {"interval": "1s"},
    "vertices": [
        {
            "id": "rows",
            "op": "source",
            "connector": "generator",
            "rows_per_second": 10,
            "columns": {"k": "id % 3"},
        },
        {
            "id": "out",
            "op": "sink",
            "inputs": ["rows"],
            "connector": "files",
            "format": "csv",
            "path": "shown",
        },
    ],
}


def headgate(*arguments: str, url: str, within: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jobmanager", *arguments],
        env={**os.environ, "HEADGATE_URL": url},
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )


def as_json(*arguments: str, url: str) -> Any:
    ended = headgate(*arguments, "--json", url=url)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.long  # the tour in the README goes most of this way
def test_a_job_from_submit_to_stop_and_on_from_its_savepoint(
    server: ServerProcess, tmp_path: Path
) -> None:
    url = server.url
    graph = tmp_path / "graph.yaml"
    graph.write_text(yaml.safe_dump(JOB))

    job = as_json("submit", str(graph), url=url)["jobid"]
    server.until_checkpoint(job, 2)

    assert job in json.dumps(as_json("list", url=url))
    assert as_json("show", "shown", url=url)["state"] == "RUNNING"
    shown = headgate("show", job[:8], url=url)
    assert "running" in shown.stdout
    assert headgate("checkpoints", job, url=url).stdout.count("COMPLETED") >= 2
    acks = as_json("checkpoints", job, "2", url=url)["acks"]
    assert {(ack["vertex"], ack["kind"]) for ack in acks} == {("rows", "offsets"), ("out", "sink")}
    taken = headgate("checkpoint", job, "--wait", url=url)
    assert taken.returncode == 0, taken.stderr
    log = headgate("logs", job, url=url).stdout
    assert "barrier_acked" in log
    written = as_json("rows", job, "--limit", "5", url=url)
    assert [one["name"] for one in written["columns"]] == ["k"]
    assert {row["k"] for row in written["rows"]} <= {0, 1, 2}
    assert len(written["rows"]) == 5
    listed = headgate("rows", "shown", "out", url=url)
    assert listed.stdout.startswith("k\n"), listed
    assert "from batch" in listed.stderr
    saved = as_json("savepoint", job, url=url)["result"]["savepoint"]
    labelled = as_json("savepoints", saved, "--label", "kind=test", url=url)
    assert labelled["labels"] == {"kind": "test"}
    assert headgate("savepoints", saved, "--verify", url=url).returncode == 0
    assert saved in headgate("savepoints", url=url).stdout
    stopped = headgate("stop", job, url=url)
    assert stopped.returncode == 0, stopped.stderr
    assert server.status(job)["state"] == "finished"

    again = as_json("submit", str(graph), "--from-savepoint", saved, url=url)["jobid"]
    status = server.until_state(again, "running")
    assert status["restored"][0]["origin"] == "savepoint"
    cancelled = headgate("cancel", again, "--wait", url=url)
    assert cancelled.returncode == 0, cancelled.stderr
    assert server.status(again)["state"] == "cancelled"
    eventually(lambda: not server.runner_processes(), within=30)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show", "nobody"), "no job"),
        (("submit", "no-such-file.yaml"), "no-such-file.yaml cannot be read"),
        (("list", "--url", "http://127.0.0.1:9"), "headgate serve"),
    ],
)
def test_an_error_is_one_line_and_a_code(
    server: ServerProcess, arguments: tuple[str, ...], told: str
) -> None:
    ended = headgate(*arguments, url=server.url)

    assert ended.returncode != 0
    assert ended.stdout == ""
    assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr
    assert told in ended.stderr


def test_faults_of_a_graph_are_all_told(server: ServerProcess, tmp_path: Path) -> None:
    graph = tmp_path / "graph.yaml"
    graph.write_text(yaml.safe_dump({**JOB, "parallelism": 7, "nonsense": 1}))

    ended = headgate("submit", str(graph), url=server.url)

    assert ended.returncode != 0
    assert "parallelism 7 does not divide" in ended.stderr
    assert "unknown field 'nonsense'" in ended.stderr


def test_the_demo_shows_rows_and_leaves_nothing_behind(directory: Path) -> None:
    ended = headgate("demo", "--seconds", "5", "--data-dir", str(directory), url="", within=180)

    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    assert "revenue" in ended.stdout
    # a random name: the processes of another run, on another root, may be seen here too
    own = str(directory).encode()
    survivors = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if own in _read(path) and path.parent.name != str(os.getpid())
    ]
    assert survivors == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
