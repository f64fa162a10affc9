"""The Python client of a server, for `asyncio`.

from jobmanager.client import AsyncClient

async with AsyncClient("http://127.0.0.1:8081") as client:
    job = await client.submit(graph)
    await job.wait(state="running")
    async for event in job.events():
        print(event.kind)
"""

import asyncio
from typing import Any

from jobmanager.client import answers, submission
from jobmanager.client.api_call import like
from jobmanager.client.connection import AsyncConnection
from jobmanager.client.errors import HeadgateError
from jobmanager.client.flows import Flow, Pause, Result
from jobmanager.client.job_handle import AsyncJobHandle, AsyncKeyedState
from jobmanager.client.keyed_state import StateOfVertex
from jobmanager.client.operations import AsyncApiOperations


class AsyncClient(AsyncApiOperations, AsyncConnection):
    """A client of the server at `url`, as `Client` is, whose methods are awaited."""

    @property
    def jobs(self) -> "AsyncJobCollection":
        """Return the jobs of the server: `client.jobs["revenue"]`."""
        return AsyncJobCollection(self)

    @like(submission.submit)
    async def submit(self, *given: Any, **named: Any) -> AsyncJobHandle:
        """Submit a job graph and return its job, as `Client.submit` does."""
        return AsyncJobHandle(self, await self.follow(submission.submit(*given, **named)))

    @like(submission.dry_run)
    async def dry_run(self, *given: Any, **named: Any) -> answers.DryRun:
        """Return the plan and the faults of a graph, as `Client.dry_run` does."""
        return await self.follow(submission.dry_run(*given, **named))

    def savepoint_state(
        self, savepoint_id: str, vertex: str, name: str = "default", region: str | None = None
    ) -> AsyncKeyedState:
        """Return the state of a vertex in a savepoint."""
        return AsyncKeyedState(self, StateOfVertex(savepoint_id, True, vertex, name, region))

    async def follow(self, flow: Flow[Result]) -> Result:
        """Send the requests of a flow and make its pauses, until it has its result."""
        try:
            step = flow.send(None)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = flow.send(None)
                    continue
                try:
                    answer = await self.run(step)
                except HeadgateError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as ended:
            result: Result = ended.value
            return result

    def __repr__(self) -> str:
        return f"<Headgate client of {self.url}>"


class AsyncJobCollection:
    """The jobs of a server."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def __getitem__(self, reference: str) -> AsyncJobHandle:
        """Return the job with this name, id or beginning of an id. The first answer that is awaited
        raises `UnknownJob` or `AmbiguousJob` if there is no such job.
        """
        return AsyncJobHandle(self._client, reference)
