"""What takes several requests, step by step, without a server."""

from collections.abc import Mapping
from typing import Any

import pytest

from jobmanager.client import (
    HeadgateError,
    JobEnded,
    OperationFailed,
    UnknownJob,
    WaitTimeout,
    flows,
)
from jobmanager.client.api_call import ApiCall
from jobmanager.client.errors import ConflictingRequest
from jobmanager.client.flows import Flow, Pause, Result

JOB = "3f" * 16


def driven(flow: Flow[Result], *given: Any) -> tuple[Result, list[str]]:
    """The flow's result, and what it asked; `given` are the answers, or errors, in order."""
    left, asked = list(given), []
    try:
        step = flow.send(None)
        while True:
            if isinstance(step, Pause):
                step = flow.send(None)
                continue
            asked.append(_shown(step))
            answer = left.pop(0)
            step = flow.throw(answer) if isinstance(answer, Exception) else flow.send(answer)
    except StopIteration as ended:
        assert left == []
        return ended.value, asked


def _shown(call: ApiCall[Any]) -> str:
    params = "&".join(f"{name}={text}" for name, text in call.params.items() if name != "triggerId")
    return f"{call.method} {call.path}" + (f"?{params}" if params else "")


def a_status(state: str, reason: str = "because") -> Mapping[str, Any]:
    return {"state": state, "reason": reason}


def an_operation(status: str, **more: Any) -> Mapping[str, Any]:
    return {
        "id": "7",
        "kind": "rescale",
        "status": status,
        "error": "no space",
        "result": None,
        **more,
    }


def test_waits_for_a_state() -> None:
    found, asked = driven(flows.wait(JOB, "RUNNING"), a_status("starting"), a_status("running"))

    assert found == "running"
    assert asked == [f"GET /v1/jobs/{JOB}/status"] * 2


def test_a_job_that_failed_is_not_waited_for_any_longer() -> None:
    with pytest.raises(JobEnded, match="has failed and will not be running: out of memory") as told:
        driven(flows.wait(JOB, "running"), a_status("failed", "out of memory"))

    assert told.value.state == "failed"


@pytest.mark.parametrize("state", ["finished", "cancelled"])
def test_waits_for_the_end_whatever_it_is(state: str) -> None:
    assert driven(flows.wait(JOB), a_status("running"), a_status(state))[0] == state


def test_an_end_by_failure_is_an_error_unless_it_was_awaited() -> None:
    with pytest.raises(JobEnded, match="has failed: because"):
        driven(flows.wait(JOB), a_status("failed"))
    assert driven(flows.wait(JOB, "failed"), a_status("failed"))[0] == "failed"


def test_the_time_is_up() -> None:
    with pytest.raises(WaitTimeout, match="is restarting and not running after 0 s: because"):
        driven(flows.wait(JOB, "running", timeout=0), a_status("restarting"))


def test_a_word_that_is_no_state() -> None:
    with pytest.raises(HeadgateError, match="'happy' is not a state of a job: starting"):
        driven(flows.wait(JOB, "happy"))


def test_a_rescale_is_followed_to_its_end() -> None:
    change: Any = {"parallelism": {"from": 2, "to": 4}}
    found, asked = driven(
        flows.rescale(JOB, 4),
        {"request-id": "7"},
        an_operation("in_progress"),
        an_operation("completed", result=change),
    )

    assert found == change
    assert asked[0] == f"PATCH /v1/jobs/{JOB}/rescaling?parallelism=4"
    assert asked[1:] == ["GET /v1/operations/7"] * 2


@pytest.mark.parametrize(
    ("status", "told"), [("failed", "rescale failed: no space"), ("rolled_back", "continues as")]
)
def test_an_operation_that_failed_is_an_error(status: str, told: str) -> None:
    with pytest.raises(OperationFailed, match=told):
        driven(flows.rescale(JOB, 4), {"request-id": "7"}, an_operation(status))


def test_a_cancel_that_finds_the_job_ended_is_no_error() -> None:
    """A repeated cancel whose first answer was lost is refused, because the first one worked."""
    refused = ConflictingRequest(409, "the job has ended")

    found, _ = driven(flows.cancel(JOB), refused, a_status("cancelled"), a_status("cancelled"))

    assert found == "cancelled"
    with pytest.raises(ConflictingRequest):
        driven(flows.cancel(JOB), refused, a_status("running"))


def test_an_aborted_checkpoint_says_why() -> None:
    failure = {"reason": "timeout", "detail": "sums/1 did not answer"}
    aborted = {"number": 3, "status": "aborted", "failure": failure}

    with pytest.raises(OperationFailed, match="checkpoint 3 was aborted: timeout: sums/1"):
        driven(flows.checkpoint(JOB), {"number": 3}, aborted)


def test_a_job_is_found_by_its_name() -> None:
    jobs = {"jobs": [{"jid": JOB, "name": "revenue", "state": "RUNNING"}]}

    assert driven(flows.find("revenue"), jobs) == (JOB, ["GET /v1/jobs/overview"])
    assert driven(flows.find(JOB)) == (JOB, [])
    with pytest.raises(UnknownJob, match="there is no job 'costs'"):
        driven(flows.find("costs"), jobs)
