"""The commands that let a job rest for a while: pause, resume."""

import time

import typer

from jobmanager.client import answers, job_reference
from jobmanager.client.cli import DEFAULT_URL, AsJson, Job, Url, Wait, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import JobEnded, WaitTimeout
from jobmanager.client.flows import ENDED

_EVERY_SECONDS = 0.2
_RUNS = ("running", "stalled", "degraded")


@app.command()
def pause(job: Job, wait: Wait = 180.0, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Pause a job between two batches, and keep its state and, for an hour, its runner.

    The job stays paused until it is resumed or cancelled, whatever happens to its runner and to the
    server.

    \b
    Example:
      headgate pause revenue
      headgate resume revenue
    """
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        state = str(client.pause(job_id)["state"])
        if wait:
            state = _awaited(client, job_id, ("paused",), wait)
    _tell(job_id, state, as_json=as_json)


@app.command()
def resume(job: Job, wait: Wait = 180.0, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Let a paused job continue, from its last batch.

    \b
    Example:
      headgate resume revenue
    """
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        state = str(client.resume(job_id)["state"])
        if wait:
            state = _awaited(client, job_id, _RUNS, wait)
    _tell(job_id, state, as_json=as_json)


def _awaited(client: HeadgateClient, job_id: str, wanted: tuple[str, ...], seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while True:
        status: answers.StatusResponse = client.status(job_id)
        state = status["state"]
        if state in wanted:
            return state
        if state in ENDED:
            raise JobEnded(f"job {job_id} has ended, {state}: {status['reason']}", state)
        if time.monotonic() >= deadline:
            raise WaitTimeout(f"job {job_id} is still {state} after {seconds:.0f} s")
        time.sleep(_EVERY_SECONDS)


def _tell(job_id: str, state: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"jobid": job_id, "state": state})
    else:
        typer.echo(f"job {job_id} is {state}")
