"""What a read costs: its time, and the CPU time of the server for it.

    python -m bench.reads [--jobs 5] [--requests 500]

A server of its own with some jobs that have ended; each of them starts a process first, so take
few. One client asks on one connection, for each route in turn. CPU time is less noisy than time:
compare it on a machine that has other work, too.
"""

import argparse
import statistics
import time

import httpx
import psutil

from bench.support import a_server, table

_ROUTES = (
    "/healthz",
    "/jobs",
    "/jobs/overview",
    "/jobs/{job}",
    "/v1/jobs/{job}/status",
    "/overview",
)
_WARM_UP = 50


def _job(number: int) -> dict[str, object]:
    return {
        "name": f"job {number}",
        "mode": "batch",
        "vertices": [
            {
                "id": "rows",
                "op": "source",
                "connector": "table",
                "schema": "n BIGINT",
                "rows": [{"n": 1}],
            },
            {"id": "out", "op": "sink", "inputs": ["rows"], "connector": "blackhole"},
        ],
    }


def _measured(client: httpx.Client, path: str, requests: int, pid: int) -> list[str]:
    for _ in range(_WARM_UP):
        client.get(path).raise_for_status()
    process = psutil.Process(pid)
    before = process.cpu_times()
    took = []
    for _ in range(requests):
        began = time.perf_counter()
        client.get(path)
        took.append(1000 * (time.perf_counter() - began))
    after = process.cpu_times()
    cpu = 1000 * (after.user + after.system - before.user - before.system) / requests
    p99 = statistics.quantiles(took, n=100)[98]
    return [f"{statistics.median(took):.1f}", f"{p99:.1f}", f"{cpu:.2f}"]


def main(jobs: int, requests: int) -> None:
    with (
        a_server("--warm-runners", "0") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client,
    ):
        ids = []
        for number in range(jobs):
            answer = client.post("/v1/jobs", json=_job(number))
            answer.raise_for_status()
            ids.append(answer.json()["jobid"])
            client.patch(f"/jobs/{ids[-1]}").raise_for_status()
        for job in ids:
            server.until_state(job, "cancelled")
        rows = []
        for route in _ROUTES:
            found = _measured(client, route.format(job=ids[-1]), requests, server.pid)
            rows.append([f"GET {route}", *found])
    table(["", "p50, ms", "p99, ms", "CPU of the server, ms"], rows, "reads")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=500)
    given = parser.parse_args()
    main(given.jobs, given.requests)
