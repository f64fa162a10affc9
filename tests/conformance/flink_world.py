"""A server with jobs that have as much to tell as jobs can have, and a request for each of Flink's
documented operations.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import httpx

from tests.integration.api.test_adoption import adopt
from tests.integration.api.test_changes import next_attempt, proved, rescale, stopped
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster, PlayedRunner

REGION: dict[str, Any] = {
    "region": "out",
    "batch": 3,
    "batches": 3,
    "is_active": True,
    "input_rows": 300,
    "output_rows": 20,
    "processed_rows_per_second": 50.0,
    "watermark": "2026-11-16T11:59:58Z",
    "progressed_at": "2026-11-16T12:00:00.5Z",
    "accumulators": {"big": {"seen": {"merge": "sum", "value": 7}}},
    "sources": [{"vertex": "bids", "backlog_rows": 5, "input_rows_per_second": 60.0}],
    "subtasks": [
        {
            "vertex": "revenue",
            "subtask": number,
            "records_in": 100 * (number + 1),
            "records_out": 10 * (number + 1),
            "bytes_in": 4000,
            "bytes_out": 900,
            "busy_ms": 1500,
            "records_in_per_second": 10.0 * (number + 1),
            "busy_ms_per_second": 250.0,
        }
        for number in range(2)
    ],
}
MEMORY: dict[str, Any] = {
    "resident_bytes": 900_000_000,
    "heap_used_bytes": 100_000_000,
    "heap_max_bytes": 1_000_000_000,
    "java_version": "17.0.15",
    "slots": 4,
    "jvm": {
        "heap_committed_bytes": 500_000_000,
        "non_heap_used_bytes": 90_000_000,
        "threads": 60,
        "cpu_cores": 2,
        "garbage_collectors": [{"name": "G1 Young Generation", "count": 6, "time_ms": 81}],
    },
}


@dataclass
class FlinkWorld:
    cluster: Cluster
    job: str
    """It runs, has checkpoints, progress and a rescale behind it."""
    other: str
    """Another, to be stopped."""
    ended: str
    failed: str
    runner: PlayedRunner
    ids: dict[str, str]

    async def ask(self, method: str, path: str, prefix: str = "/v1") -> httpx.Response:
        """Send the request for a documented operation."""
        url = prefix + path.format(**self.ids)
        more: dict[str, Any] = {}
        match method, path:
            case "POST", "/jars/upload":
                graph = json.dumps(a_document(name="a jar")).encode()
                more["files"] = {"jarfile": ("job.json", graph, "application/x-java-archive")}
            case "POST", "/savepoint-disposal":
                more["json"] = {"savepoint-path": (await adopt(self.cluster))["path"]}
            case "PUT", "/jobs/{jobid}/resource-requirements":
                more["json"] = await self.cluster.get(url)
            case "PATCH", "/jobs/{jobid}/rescaling":
                more["params"] = {"parallelism": 2}
            case "POST", "/jobs/{jobid}/stop":
                url = url.replace(self.job, self.other)
                more["json"] = {"drain": False}
            case (("POST" | "PATCH"), _):
                more["json"] = {}
            case "GET", "/taskmanagers/{taskmanagerid}/thread-dump":
                answer, _ = await asyncio.gather(self.cluster.http.get(url), self._tell_threads())
                return answer
            case "GET", _ if path.endswith("metrics"):
                more["params"] = {}
        return await self.cluster.http.request(method, url, **more)

    async def _tell_threads(self) -> None:
        """As a runner does when the answer to a heartbeat asks for it."""
        while not (await self.runner.beat())["wants_threads"]:
            pass  # heartbeats of a moment are answered together
        body = {"job": self.job, "attempt": self.runner.attempt, "regions": []}
        threads = [{"name": "python: MainThread", "text": "in main.py"}]
        answer = await self.runner.post("heartbeat", {**body, "threads": threads})
        assert answer.json()["wants_threads"] is False


async def a_world(cluster: Cluster) -> FlinkWorld:
    job, runner = await cluster.running(a_document(name="counts", max_parallelism=8))
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints", json={"triggerId": "c" * 32})
    cluster.clock.pass_time(0.1)
    await runner.ack(1, *EVERYONE)
    operation = await rescale(cluster, job, 4)
    await stopped(runner)
    changed = next_attempt(runner)
    await changed.say("running", restored=[])
    await proved(cluster, changed, 3, *EVERYONE, ("revenue", 2, "state"), ("revenue", 3, "state"))
    beat = {"job": job, "attempt": changed.attempt, "regions": [REGION], "memory": MEMORY}
    assert (await changed.post("heartbeat", beat)).status_code == 200
    other, _ = await cluster.running(a_document(name="other"))
    ended, ending = await cluster.running(a_document(name="ended"))
    await ending.say("finished")
    failed, failing = await cluster.running(a_document(name="failed"))
    await failing.fail("no such column", restartable=False)
    graph = json.dumps(a_document(name="a jar")).encode()
    jar = await cluster.http.post("/v1/jars/upload", files={"jarfile": ("job.json", graph)})
    vertices = (await cluster.get(f"/v1/jobs/{job}"))["vertices"]
    keyed = next(one for one in vertices if "revenue" in one["headgate-vertices"])
    ids = {
        "jobid": job,
        "applicationid": job,
        "vertexid": keyed["id"],
        "checkpointid": "1",
        "triggerid": operation,
        "rescaleuuid": operation,
        "subtaskindex": "0",
        "attempt": "0",
        "jarid": jar.json()["filename"].rsplit("/", 1)[-1],
        "taskmanagerid": changed.id.hex,
        "datasetid": "d" * 32,
    }
    return FlinkWorld(cluster, job, other, ended, failed, changed, ids)
