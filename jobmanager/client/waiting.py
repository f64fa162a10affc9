"""What `headgate wait` waits for, besides states: checkpoints, savepoints and operations."""

import time
from dataclasses import dataclass

from jobmanager.client import answers, flows, operations
from jobmanager.client.errors import HeadgateError, JobEnded, WaitTimeout
from jobmanager.client.flows import ENDED, Flow, Pause, ask

_EVERY = 0.5
_WITH_SAVEPOINT = ("savepoint", "stop")
_FORMS = "state=STATE, checkpoint, checkpoint=NUMBER, savepoint, operation=ID or end"


@dataclass(frozen=True)
class Awaited:
    """What was awaited, and has happened."""

    state: str | None = None
    checkpoint: int | None = None
    savepoint: str | None = None

    def __str__(self) -> str:
        return str(self.savepoint or self.checkpoint or self.state)


def awaited(job_id: str, condition: str, timeout: float) -> Flow[Awaited]:
    """Wait for what `--for` names."""
    name, equals, value = condition.partition("=")
    match name, value:
        case "end", "":
            return Awaited(state=(yield from flows.wait(job_id, None, timeout)))
        case "state", str() if value:
            return Awaited(state=(yield from flows.wait(job_id, value, timeout)))
        case "checkpoint", _ if not equals or value.isdigit():
            number = int(value) if value else None
            return Awaited(checkpoint=(yield from checkpoint(job_id, number, timeout)))
        case "savepoint", "":
            return Awaited(savepoint=(yield from savepoint(job_id, timeout)))
        case "operation", str() if value:
            done = yield from flows.until_ended(value, timeout)
            result = done["result"]
            return Awaited(state=done["status"], savepoint=result and result["savepoint"])
        case _:
            raise HeadgateError(f"--for {condition!r} is not understood: give {_FORMS}")


def checkpoint(job_id: str, number: int | None, timeout: float) -> Flow[int]:
    """Wait until the checkpoint with this number, or a later one, is complete; without a number,
    until the next one is. Return its number.
    """
    deadline = time.monotonic() + timeout
    wanted = number
    while True:
        status = yield from ask(operations.get_job_status(job_id))
        last = status["last_checkpoint"]["number"] if status["last_checkpoint"] else 0
        if wanted is None:
            wanted = last + 1
        if last >= wanted:
            return last
        if status["state"] in ENDED:
            raise JobEnded(
                f"job {job_id} is {status['state']}, and its last checkpoint is {last or 'none'}",
                status["state"],
            )
        if time.monotonic() >= deadline:
            raise WaitTimeout(
                f"checkpoint {wanted} of job {job_id} has not completed within {timeout:.0f} s"
            )
        yield Pause(_EVERY)


def savepoint(job_id: str, timeout: float) -> Flow[str]:
    """Wait for the savepoint that is being written, or else for the next one; return its id. Of a
    job that has ended, return the last one.
    """
    deadline = time.monotonic() + timeout
    before: set[str] | None = None
    while True:
        status = yield from ask(operations.get_job_status(job_id))
        listed = yield from ask(operations.get_job_operations(job_id))
        found = [one for one in listed["items"] if one["kind"] in _WITH_SAVEPOINT]
        if before is None:
            ended = {one["id"] for one in found if one["status"] != "in_progress"}
            before = set() if status["state"] in ENDED else ended
        new = next((one for one in found if one["id"] not in before), None)
        if new is not None and new["status"] != "in_progress":
            return _savepoint_of(new)
        if new is None and status["state"] in ENDED:
            raise JobEnded(
                f"job {job_id} is {status['state']}, without a savepoint", status["state"]
            )
        if time.monotonic() >= deadline:
            raise WaitTimeout(f"job {job_id} has no new savepoint after {timeout:.0f} s")
        yield Pause(_EVERY)


def _savepoint_of(operation: answers.OperationResponse) -> str:
    result = operation["result"]
    if operation["status"] != "completed" or result is None:
        raise HeadgateError(f"{operation['kind']} {operation['id']} failed: {operation['error']}")
    assert result["savepoint"] is not None, "it took a savepoint"
    return result["savepoint"]
