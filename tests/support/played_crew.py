"""A crew that plays every runner of a cluster without processes, as runners behave that nothing
disturbs: they run what they are told to run, ack every barrier, leave whole savepoints, and stop.

For tests of clients: commands and methods that wait for an outcome get one, without Spark.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from tests.integration.api.test_restore_fit import a_savepoint
from tests.support.cluster import Cluster, PlayedRunner
from tests.support.served_cluster import ServedCluster, a_served_cluster

_EVERY = 0.06
_KINDS = {"source": "offsets", "sink": "sink"}


@dataclass
class PlayedCrew:
    cluster: Cluster
    _done: dict[str, int] = field(default_factory=dict)
    """The last directive that each runner has carried out."""

    async def turn(self) -> None:
        """Every live job gets a runner, and every runner does what it was told."""
        await self.cluster.dispatch.run_once()
        jobs = (await self.cluster.get("/v1/jobs/overview"))["jobs"]
        for job in [one["jid"] for one in jobs if one["end-time"] < 0]:
            attempt = (await self.cluster.get(f"/v1/jobs/{job}/status"))["attempt"]
            try:
                runner = await self.cluster.noted_runner(job, attempt)
            except AssertionError:  # no runner has been launched yet
                continue
            await self._work(runner)

    async def _work(self, runner: PlayedRunner) -> None:
        key = str(runner.id)
        if key not in self._done:
            assert (await runner.register()).status_code == 200
            self._done[key] = 0
        for one in await runner.directives(after=self._done[key]):
            self._done[key] = one["id"]
            await self._do(replace(runner, attempt=one["attempt"]), one["body"])

    async def _do(self, runner: PlayedRunner, order: dict[str, Any]) -> None:
        match order["kind"]:
            case "run":
                await runner.say("prepared", repartitioned=[])
                await runner.say("running", restored=[])
                sinks = [one["id"] for one in order["graph"]["vertices"] if one["op"] == "sink"]
                moved = {"batch": 5, "batches": 1, "is_active": True}
                await runner.beat(*({"region": sink, **moved} for sink in sinks))
                await self.cluster.timer.run_once()
            case "barrier":
                await self._ack(runner, order)
            case "stop":
                await self._ack(runner, order)
                await runner.say("stopped", savepoint=order["savepoint"]["id"])
            case "cancel":
                await runner.say("cancelled", detail="at a boundary")

    async def _ack(self, runner: PlayedRunner, order: dict[str, Any]) -> None:
        job, number = runner.job.hex, order["checkpoint"]
        document = (await self.cluster.get(f"/v1/jobs/{job}/graph"))["graph"]
        kinds = {one["id"]: _KINDS.get(one["op"], "state") for one in document["vertices"]}
        found = await self.cluster.get(f"/v1/jobs/{job}/checkpoints/{number}")
        awaited = [(one["vertex"], one["subtask"], one["region"]) for one in found["awaited"]]
        body = runner.acks(number, *((vertex, n, kinds[vertex]) for vertex, n, _ in awaited))
        body["batches"] = {region: number for _, _, region in awaited}
        for ack, (_, _, region) in zip(body["acks"], awaited, strict=True):
            ack["region"] = region
        if order.get("savepoint"):
            directory = Path(urlparse(order["savepoint"]["directory"]).path)
            await asyncio.to_thread(a_savepoint, directory, document)
            body["manifest"] = "manifest.json"
        answer = await runner.post("acks", body)
        assert answer.status_code == 200, answer.text


@asynccontextmanager
async def at_work(cluster: Cluster) -> AsyncIterator[PlayedCrew]:
    """The crew works until the end of the block."""
    crew, stop = PlayedCrew(cluster), asyncio.Event()

    async def work() -> None:
        while not stop.is_set():
            await crew.turn()
            await asyncio.sleep(_EVERY)

    task = asyncio.create_task(work())
    try:
        yield crew
    finally:
        stop.set()
        await task


@contextmanager
def a_served_crew(database_url: str, directory: Path) -> Iterator[ServedCluster]:
    """A server over HTTP whose jobs run, as far as a client can see."""
    with a_served_cluster(database_url, directory) as served:
        entered = at_work(served.cluster)
        served.run(lambda _: entered.__aenter__())
        try:
            yield served
        finally:
            served.run(lambda _: entered.__aexit__(None, None, None))
