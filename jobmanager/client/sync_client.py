"""The Python client of a server.

    from jobmanager.client import Client

    with Client("http://127.0.0.1:8081") as client:
        job = client.submit(graph)
        job.wait(state="running")
        savepoint = job.stop()
        client.submit(new_graph, savepoint=savepoint).wait(state="running")

`Client` has a method for each operation of the server (`get_job_status(job_id)` …), typed as the
OpenAPI document says, and jobs as objects. Requests are repeated if the server was not reached or
not ready, where that is safe: reads, and writes that carry an id of their own.
"""

import time
from collections.abc import Iterator
from typing import Any

from jobmanager.client import answers, flows, job_card, operations, submission
from jobmanager.client.api_call import like
from jobmanager.client.connection import Connection
from jobmanager.client.errors import HeadgateError
from jobmanager.client.flows import Flow, Pause, Result
from jobmanager.client.job_handle import JobHandle, KeyedState
from jobmanager.client.keyed_state import StateOfVertex
from jobmanager.client.operations import ApiOperations


class Client(ApiOperations, Connection):
    """A client of the server at `url`. Close it, or use it as a context manager.

    Without a URL the server is that of HEADGATE_URL, or of the context of
    ~/.config/headgate/config.toml that is called `context`, or is the current one. The token and
    the certificates come from there, too, unless they are given; an empty `token` means that none
    is sent.
    """

    @property
    def jobs(self) -> "JobCollection":
        """Return the jobs of the server: `client.jobs["revenue"]`, or one after the other."""
        return JobCollection(self)

    @like(submission.submit)
    def submit(self, *given: Any, **named: Any) -> JobHandle:
        """Submit a job graph and return its job. It may start from a savepoint (its id or location)
        or from a checkpoint (`<job id>:<number>`). With `directory`, artifacts that are files there
        are uploaded. The same `idempotency_key` and graph mean the same job.
        """
        return JobHandle(self, self.follow(submission.submit(*given, **named)))

    @like(submission.dry_run)
    def dry_run(self, *given: Any, **named: Any) -> answers.DryRun:
        """Return the plan and the faults of a graph, and why the job could not start from a
        savepoint or checkpoint.
        """
        return self.follow(submission.dry_run(*given, **named))

    def savepoint_state(
        self, savepoint_id: str, vertex: str, name: str = "default", region: str | None = None
    ) -> KeyedState:
        """Return the state of a vertex in a savepoint."""
        return KeyedState(self, StateOfVertex(savepoint_id, True, vertex, name, region))

    def follow(self, flow: Flow[Result]) -> Result:
        """Send the requests of a flow and make its pauses, until it has its result."""
        try:
            step = flow.send(None)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = flow.send(None)
                    continue
                try:
                    answer = self.run(step)
                except HeadgateError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as ended:
            result: Result = ended.value
            return result

    def __repr__(self) -> str:
        return f"<Headgate client of {self.url}>"


class JobCollection:
    """The jobs of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getitem__(self, reference: str) -> JobHandle:
        """Return the job with this name, id or beginning of an id. A name means the only live job
        of that name, or else the only job of that name. Raises `UnknownJob` or `AmbiguousJob`.
        """
        return JobHandle(self._client, self._client.follow(flows.find(reference)))

    def __iter__(self) -> Iterator[JobHandle]:
        """Yield all live jobs and those that ended last."""
        listed = self._client.run(operations.get_jobs_overview())["jobs"]
        return iter([JobHandle(self._client, one["jid"]) for one in listed])

    def _repr_html_(self) -> str:
        return job_card.jobs_table(self._client.run(operations.get_jobs_overview())["jobs"])
