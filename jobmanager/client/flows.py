"""What takes several requests, written once for both clients: wait, savepoint, stop, rescale …

A flow is a generator. It yields the requests to send and the pauses to make, and is sent the
answers; `Client` and `AsyncClient` each drive it in their own way:

    def status_twice(job_id: str) -> Flow[str]:
        before = yield from ask(operations.get_job_status(job_id))
        yield Pause(1.0)
        after = yield from ask(operations.get_job_status(job_id))
        return f"{before['state']}, {after['state']}"
"""

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, cast

from jobmanager.client import answers, job_reference, operations
from jobmanager.client.api_call import Answer, ApiCall
from jobmanager.client.errors import (
    ConflictingRequest,
    HeadgateError,
    JobEnded,
    OperationFailed,
    WaitTimeout,
)

ENDED = ("finished", "cancelled", "failed")
STATES = (
    *("starting", "running", "restarting", "pausing", "paused", "cancelling"),
    *("stalled", "degraded"),
    *ENDED,
)
_EVERY = 0.3
_OPERATION_EVERY = 0.2
Result = TypeVar("Result")
Given = ParamSpec("Given")


@dataclass(frozen=True)
class Pause:
    seconds: float


Flow = Generator[ApiCall[Any] | Pause, Any, Result]


def ask(call: ApiCall[Answer]) -> Flow[Answer]:
    """Send one request."""
    answer: Answer = yield call
    return answer


def of_call(make: Callable[Given, ApiCall[Answer]]) -> Callable[Given, Flow[Answer]]:
    """Make a flow of a single operation."""

    def flow(*given: Given.args, **named: Given.kwargs) -> Flow[Answer]:
        return (yield from ask(make(*given, **named)))

    flow.__doc__, flow.__wrapped__ = make.__doc__, make  # type: ignore[attr-defined]
    return flow


def find(reference: str) -> Flow[str]:
    """Return the id of the job that an id, the beginning of an id, or a name means."""
    known = job_reference.whole_id(reference)
    if known is not None:
        return known
    found = yield from ask(operations.get_jobs_overview())
    return job_reference.choose(found["jobs"], reference)


def wait(job_id: str, state: str | None = None, timeout: float = 3600.0) -> Flow[str]:
    """Wait until the job is in this state, such as `running`, and return it; without a state, until
    the job has ended. Raises `JobEnded` if the job failed, or ended in another state than the
    awaited one, and `WaitTimeout` after `timeout` seconds.
    """
    wanted = None if state is None else state_word(state)
    deadline = time.monotonic() + timeout
    while True:
        found = yield from ask(operations.get_job_status(job_id))
        reached = judged(job_id, found, wanted)
        if reached is not None:
            return reached
        if time.monotonic() >= deadline:
            raise WaitTimeout(
                f"job {job_id} is {found['state']} and not {wanted or 'at its end'} after "
                f"{timeout:.0f} s: {found['reason']}"
            )
        yield Pause(_EVERY)


def state_word(state: str) -> str:
    """Return our word for a state that was written in any case, or as Flink writes it."""
    word = {"canceled": "cancelled", "created": "starting", "cancelling": "cancelling"}.get(
        state.lower(), state.lower()
    )
    if word not in STATES:
        raise HeadgateError(f"{state!r} is not a state of a job: {', '.join(STATES)}")
    return word


def judged(job_id: str, status: answers.StatusResponse, wanted: str | None) -> str | None:
    """Return the state if it is the awaited one; None: go on waiting. Pure."""
    state = status["state"]
    if state == wanted:
        return state
    if state not in ENDED:
        return None
    if wanted is None and state != "failed":
        return state
    expected = f" and will not be {wanted}" if wanted else ""
    raise JobEnded(f"job {job_id} has {_ended(state)}{expected}: {status['reason']}", state)


def _ended(state: str) -> str:
    return "been cancelled" if state == "cancelled" else state


def until_ended(operation_id: str, timeout: float) -> Flow[answers.OperationResponse]:
    """Return the operation when it has completed. Raises `OperationFailed` and `WaitTimeout`."""
    deadline = time.monotonic() + timeout
    while True:
        operation = yield from ask(operations.get_operation(operation_id))
        kind, status = operation["kind"], operation["status"]
        if status == "completed":
            return operation
        if status == "failed":
            raise OperationFailed(f"{kind} failed: {operation['error']}")
        if status == "rolled_back":
            raise OperationFailed(
                f"{kind} was rolled back, and the job continues as before: {operation['error']}"
            )
        if time.monotonic() >= deadline:
            raise WaitTimeout(f"{kind} {operation_id} is not done after {timeout:.0f} s")
        yield Pause(_OPERATION_EVERY)


def savepoint(job_id: str, target: str | None = None, timeout: float = 600.0) -> Flow[str]:
    """Take a savepoint and return its id."""
    call = operations.trigger_savepoint(job_id, target_directory=target)
    started = yield from ask(call)
    return (yield from _savepoint_of(started["request-id"], timeout))


def stop(
    job_id: str, *, drain: bool = False, target: str | None = None, timeout: float = 600.0
) -> Flow[str]:
    """Stop the job with a savepoint and return the savepoint's id."""
    call = operations.stop_job(job_id, drain=drain, target_directory=target)
    started = yield from ask(call)
    return (yield from _savepoint_of(started["request-id"], timeout))


def rescale(job_id: str, parallelism: int, timeout: float = 600.0) -> Flow[answers.JobChanged]:
    """Change the parallelism and return what changed. On failure the job continues as before."""
    started = yield from ask(operations.rescale_job(job_id, parallelism=parallelism))
    done = yield from until_ended(started["request-id"], timeout)
    return cast(answers.JobChanged, done["result"])


def upgrade(
    job_id: str,
    graph: Mapping[str, Any],
    *,
    parallelism: int | None = None,
    allow_non_restored_state: bool = False,
    timeout: float = 600.0,
) -> Flow[answers.JobChanged]:
    """Continue the job with another graph and return what changed. On failure the job goes back to
    the old graph.
    """
    call = operations.upgrade_job(
        job_id,
        graph,
        parallelism=parallelism,
        allow_non_restored_state=allow_non_restored_state or None,
    )
    started = cast(answers.UpgradeAccepted, (yield from ask(call)))
    done = yield from until_ended(started["operation"], timeout)
    return cast(answers.JobChanged, done["result"])


def plan_upgrade(
    job_id: str,
    graph: Mapping[str, Any],
    *,
    parallelism: int | None = None,
    allow_non_restored_state: bool = False,
) -> Flow[answers.PlanResponse]:
    """Return what an upgrade would do. Nothing is stopped or stored."""
    call = operations.upgrade_job(
        job_id,
        graph,
        parallelism=parallelism,
        allow_non_restored_state=allow_non_restored_state or None,
        dry_run=True,
    )
    return cast(answers.PlanResponse, (yield from ask(call)))


def cancel(job_id: str, timeout: float = 120.0) -> Flow[str]:
    """Cancel the job after its current batch and return its final state."""
    try:
        yield from ask(operations.cancel_job(job_id, mode="cancel"))
    except ConflictingRequest:
        # It has ended: before, or by this very request, whose first answer was lost.
        found = yield from ask(operations.get_job_status(job_id))
        if found["state"] not in ENDED:
            raise
    deadline = time.monotonic() + timeout
    while True:
        found = yield from ask(operations.get_job_status(job_id))
        if found["state"] in ENDED:
            return found["state"]
        if time.monotonic() >= deadline:
            raise WaitTimeout(f"job {job_id} has not ended within {timeout:.0f} s")
        yield Pause(_EVERY)


def pause(job_id: str, timeout: float = 180.0) -> Flow[str]:
    """Pause the job between two batches and return its state when it is paused."""
    yield from ask(operations.pause_job(job_id))
    return (yield from wait(job_id, "paused", timeout))


def resume(job_id: str, timeout: float = 180.0) -> Flow[str]:
    """Let the paused job continue and return its state when it runs."""
    yield from ask(operations.resume_job(job_id))
    return (yield from wait(job_id, "running", timeout))


def checkpoint(job_id: str, timeout: float = 120.0) -> Flow[answers.CheckpointResponse]:
    """Take a checkpoint now and return it when it is complete, with every ack."""
    taken = yield from ask(operations.trigger_checkpoint(job_id))
    number = taken["number"]
    deadline = time.monotonic() + timeout
    while True:
        answer = yield from ask(operations.get_job_checkpoint(job_id, str(number)))
        found = cast(answers.CheckpointResponse, answer)  # a number was asked for
        if found["status"] == "completed":
            return found
        if found["status"] == "aborted":
            failure = found["failure"]
            why = f"{failure['reason']}: {failure['detail']}" if failure else "no reason was given"
            raise OperationFailed(f"checkpoint {number} was aborted: {why}")
        if time.monotonic() >= deadline:
            raise WaitTimeout(f"checkpoint {number} has not completed within {timeout:.0f} s")
        yield Pause(_OPERATION_EVERY)


def _savepoint_of(operation_id: str, timeout: float) -> Flow[str]:
    done = yield from until_ended(operation_id, timeout)
    result = done["result"]
    assert result is not None, "a completed operation has its result"
    assert result["savepoint"] is not None, "it took a savepoint"
    return result["savepoint"]
