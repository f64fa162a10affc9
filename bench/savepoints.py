"""How long a savepoint takes, and a rescale phase by phase, against the size of the state.

    python -m bench.savepoints 10 100 1000      # megabytes of state

For each size: two savepoints of the running job (the second finds everything warm), then
a rescale 2 → 4 and back 4 → 2.
"""

import sys
from typing import Any

from bench.support import (
    PAYLOAD_BYTES,
    a_job_with_state,
    a_server,
    operation,
    say,
    seconds,
    table,
    until_filled,
)
from tests.support.server import ServerProcess

_FILL_SECONDS = 20


def main(sizes: list[int]) -> None:
    savepoints: list[list[object]] = []
    rescales: list[list[object]] = []
    with a_server() as server:
        for megabytes in sizes:
            one, more = measure(server, megabytes)
            savepoints += one
            rescales += more
    sys.stdout.write("\nSavepoints\n\n")
    table(["state", "savepoint", "bytes", "seconds", "MB/s"], savepoints, "savepoints")
    sys.stdout.write("\nRescales, seconds a phase\n\n")
    names = ["savepoint", "stop", "repartition", "start", "first batch", "all"]
    table(["state", "rescale", *names], rescales, "rescales")


def measure(server: ServerProcess, megabytes: int) -> tuple[list[list[object]], list[list[object]]]:
    keys = megabytes * 1_000_000 // PAYLOAD_BYTES
    rate = max(2000, keys // _FILL_SECONDS)
    say(f"{megabytes} MB: {keys} keys, {rate} rows a second")
    job = server.submit(a_job_with_state(keys, rate))
    server.until_state(job, "running")
    until_filled(server, job, keys)
    savepoints = [_savepoint(server, job, megabytes, name) for name in ("first", "second")]
    rescales = [_rescale(server, job, megabytes, p, q) for p, q in ((2, 4), (4, 2))]
    server.http.patch(f"/v1/jobs/{job}")
    server.until_state(job, "cancelled")
    return savepoints, rescales


def _savepoint(server: ServerProcess, job: str, megabytes: int, name: str) -> list[object]:
    asked = server.http.post(f"/v1/jobs/{job}/savepoints", json={}).json()["request-id"]
    took = seconds(operation(server, asked)["phases"][0])
    found = server.get(f"/v1/operations/{asked}")["result"]["savepoint"]
    size = server.get(f"/v1/savepoints/{found}")["bytes"]
    say(f"  {name} savepoint: {took:.1f} s, {size / 1e6:.0f} MB")
    server.http.delete(f"/v1/savepoints/{found}")
    return [
        f"{megabytes} MB",
        name,
        f"{size / 1e6:.0f} MB",
        f"{took:.2f}",
        f"{size / took / 1e6:.0f}",
    ]


def _rescale(server: ServerProcess, job: str, megabytes: int, p: int, q: int) -> list[object]:
    answer = server.http.patch(f"/v1/jobs/{job}/rescaling", params={"parallelism": q})
    ended: dict[str, Any] = operation(server, answer.json()["request-id"])
    took = [seconds(phase) for phase in ended["phases"]]
    say(f"  {p} to {q}: {sum(took):.1f} s")
    return [f"{megabytes} MB", f"{p} → {q}", *(f"{one:.2f}" for one in (*took, sum(took)))]


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]] or [10, 100, 1000])
