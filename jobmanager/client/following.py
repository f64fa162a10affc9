"""Follows an operation to its end."""

import time
from datetime import datetime

import typer

from jobmanager.client import answers
from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import OperationFailed, WaitTimeout

_EVERY_SECONDS = 0.2


def until_ended(
    client: HeadgateClient, operation_id: str, seconds: float, *, tell: bool = False
) -> answers.OperationResponse:
    """Return the operation when it has completed, or as it is when the time is up.

    Raises if it failed or was rolled back. With `tell`, each phase that ends is printed to the
    standard error.
    """
    deadline = time.monotonic() + seconds
    told = 0
    while True:
        operation = client.operation(operation_id)
        ended = [phase for phase in operation["phases"] if phase["ended_at"]]
        if tell:
            for phase in ended[told:]:
                typer.echo(_line(phase), err=True)
        told = len(ended)
        if operation["status"] in ("failed", "rolled_back"):
            raise OperationFailed(_failure(operation))
        if operation["status"] == "completed" or time.monotonic() >= deadline:
            return operation
        time.sleep(_EVERY_SECONDS)


def within(
    client: HeadgateClient, operation_id: str, seconds: float, *, tell: bool = False
) -> answers.OperationResponse:
    """Return the operation when it has completed; as it is, if `seconds` is 0. Raises `WaitTimeout`
    if it has not completed in time.
    """
    operation = until_ended(client, operation_id, seconds, tell=tell)
    if seconds > 0 and operation["status"] != "completed":
        raise WaitTimeout(
            f"{operation['kind']} {operation_id} is still under way after {seconds:.0f} s: "
            f"{operation['phases'][-1]['name']}"
        )
    return operation


def _line(phase: answers.PhaseResponse) -> str:
    began, ended = phase["started_at"], phase["ended_at"] or phase["started_at"]
    took = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    return f"{phase['name']:<16} {took.total_seconds():6.1f} s  {phase['detail']}"


def _failure(operation: answers.OperationResponse) -> str:
    kind, error = operation["kind"], operation["error"]
    if operation["status"] == "failed":
        return f"{kind} failed: {error}"
    return f"{kind} was rolled back, and the job continues as before: {error}"
