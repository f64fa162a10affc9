"""What a read costs: its time, and the CPU time of the server and of Postgres for it.

    python -m bench.reads [--jobs 100] [--checkpoints 100] [--requests 500]

A server with jobs that run and have checkpoints (`bench.read_server`). One client asks on one
connection, for each route in turn. CPU time is less noisy than time: compare it on a machine that
has other work, too.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import psutil

from bench.support import table

ROUTES = (
    "/healthz",
    "/jobs",
    "/jobs/overview",
    "/v1/jobs/summary",
    "/jobs/{job}",
    "/v1/jobs/{job}/status",
    "/jobs/{job}/checkpoints",
    "/v1/jobs/{first}/checkpoints",
    "/overview",
)
_WARM_UP = 30


@contextmanager
def a_read_server(jobs: int, checkpoints: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Its process id, its URL and the ids of its jobs."""
    options = ["--jobs", str(jobs), "--checkpoints", str(checkpoints)]
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.read_server", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert server.stdin is not None
    try:
        yield server.pid, json.loads(server.stdout.readline())
    finally:
        server.stdin.close()
        server.wait(60)


def _cpu(process: psutil.Process) -> float:
    """With that of its children."""
    seconds = 0.0
    for one in (process, *process.children()):
        with suppress(psutil.NoSuchProcess):  # Postgres has children that come and go
            seconds += sum(one.cpu_times()[:2])
    return seconds


def _measured(url: str, path: str, requests: int, pid: int, postgres_pid: int) -> list[str]:
    server, database = psutil.Process(pid), psutil.Process(postgres_pid)
    found = httpx.get(url + path, trust_env=False, timeout=60).raise_for_status()
    with socket.create_connection(httpx.URL(url).netloc.decode().split(":")) as connection:  # type: ignore[arg-type]
        call = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        stream = connection.makefile("rb")
        for _ in range(_WARM_UP):
            _call(connection, stream, call)
        before, of_postgres = _cpu(server), _cpu(database)
        took = []
        for _ in range(requests):
            began = time.perf_counter()
            _call(connection, stream, call)
            took.append(1000 * (time.perf_counter() - began))
        cpu = 1000 * (_cpu(server) - before) / requests
        postgres = 1000 * (_cpu(database) - of_postgres) / requests
    p99 = statistics.quantiles(took, n=100)[98]
    figures = [f"{statistics.median(took):.1f}", f"{p99:.1f}", f"{cpu:.2f}", f"{postgres:.2f}"]
    return [*figures, f"{len(found.content) / 1000:.1f}"]


def _call(connection: socket.socket, stream: Any, call: bytes) -> None:
    connection.sendall(call)
    length = 0
    while (line := stream.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    stream.read(length)


def main(jobs: int, checkpoints: int, requests: int) -> None:
    with a_read_server(jobs, checkpoints) as (pid, told):
        ids = told["jobs"]
        rows = []
        for route in ROUTES:
            path = route.format(job=ids[-1], first=ids[0])
            rows.append(
                [f"GET {route}", *_measured(told["url"], path, requests, pid, told["postgres"])]
            )
    header = ["", "p50, ms", "p99, ms", "CPU of the server, ms", "CPU of Postgres, ms", "kB"]
    table(header, rows, "reads")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--checkpoints", type=int, default=100)
    parser.add_argument("--requests", type=int, default=500)
    given = parser.parse_args()
    main(given.jobs, given.checkpoints, given.requests)
