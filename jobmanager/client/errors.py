"""Errors that the client raises.

    HeadgateError
      ServerUnreachable     no answer at all
      RequestRefused        the server's own message: problem+json, or Flink's errors
        InvalidRequest      400, 413, 415, 422: it can never succeed as it is
        NotAuthenticated    401: no token, or one that is not known
        NotPermitted        403: the role of the token is too small
        MissingResource     404: no such job, checkpoint, savepoint …
        ConflictingRequest  409: the present state forbids it
        ServerNotReady      429, 502, 503, 504: try again
        ServerFault         500: the server's log has the details
      AmbiguousJob          a prefix or name that matches several jobs
        UnknownJob          … or none
      UnreadableGraph       a job-graph file that cannot be read, or is not a mapping
      OperationFailed       a savepoint, stop, rescale or upgrade that failed or was rolled back
      JobEnded              a job that ended in another state than the one that was awaited
      WaitTimeout           what was awaited has not happened in time; it may still happen

Every message is one line, and says what to do where that is known.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import httpx

from jobmanager.client import answers


class HeadgateError(Exception):
    """Base class of all errors that the client raises."""

    faults: Sequence[str] = ()
    """Faults of a job graph, one line each."""


class ServerUnreachable(HeadgateError):
    def __init__(self, url: str, cause: Exception) -> None:
        if isinstance(cause, httpx.TimeoutException):
            super().__init__(f"the server at {url} did not answer in time")
        elif "CERTIFICATE_VERIFY_FAILED" in str(cause):
            super().__init__(
                f"the certificate of {url} is not trusted ({_reason_of(cause)}): name the "
                "certificate of the authority that issued it with --ca FILE or HEADGATE_CA"
            )
        else:
            super().__init__(
                f"no server answers at {url}: is it running (headgate serve)? "
                "Set HEADGATE_URL or --url for another server"
            )


class AmbiguousJob(HeadgateError):
    pass


class UnknownJob(AmbiguousJob):
    pass


class OperationFailed(HeadgateError):
    pass


class JobEnded(HeadgateError):
    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.state = state
        """The state in which the job ended: finished, cancelled or failed."""


class WaitTimeout(HeadgateError):
    pass


class UnreadableGraph(HeadgateError):
    pass


class RequestRefused(HeadgateError):
    """The server answered with an error."""

    def __init__(
        self,
        status: int,
        message: str,
        faults: Sequence[str] = (),
        problem: answers.Problem | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.faults = tuple(faults)
        self.problem: answers.Problem = problem or {
            "type": "about:blank",
            "title": message,
            "status": status,
            "detail": message,
            "instance": "",
        }
        """The problem as the server describes it. Flink's routes send a message only."""

    @property
    def kind(self) -> str:
        """The name of the problem, such as JobNotFound; empty where the server sent none."""
        return self.problem["type"].removeprefix("/problems/").removeprefix("about:blank")


class InvalidRequest(RequestRefused):
    pass


class NotAuthenticated(RequestRefused):
    pass


class NotPermitted(RequestRefused):
    pass


class MissingResource(RequestRefused):
    pass


class ConflictingRequest(RequestRefused):
    pass


class ServerNotReady(RequestRefused):
    pass


class ServerFault(RequestRefused):
    pass


_BY_STATUS: Mapping[int, type[RequestRefused]] = {
    400: InvalidRequest,
    401: NotAuthenticated,
    403: NotPermitted,
    404: MissingResource,
    409: ConflictingRequest,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: ServerNotReady,
    500: ServerFault,
    502: ServerNotReady,
    503: ServerNotReady,
    504: ServerNotReady,
}


def refusal_of(response: httpx.Response) -> RequestRefused:
    """Make the error from an answer, in either format: problem+json or Flink's."""
    made = _BY_STATUS.get(response.status_code, RequestRefused)
    message, faults, problem = _said(response)
    return made(response.status_code, message, faults, problem)


def _said(response: httpx.Response) -> tuple[str, Sequence[str], answers.Problem | None]:
    """Return message, faults and the problem itself."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, Mapping):
        return _bare(response), (), None
    if isinstance(body.get("errors"), list):
        said = "; ".join(_one_line(error) for error in body["errors"])
        return said or _bare(response), (), None
    faults = [fault_line(fault) for fault in body.get("faults") or ()]
    title, detail = _one_line(body.get("title", "")), _one_line(body.get("detail", ""))
    if faults:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        message = f"{title or 'The job graph was refused'} ({count})"
    elif isinstance(body.get("detail"), list):
        message = f"{title or 'The request is not valid'}: {_invalid_fields(body['detail'])}"
    else:
        message = ": ".join(part for part in (title, detail) if part) or _bare(response)
    problem = cast(answers.Problem, body) if "type" in body else None
    return message, faults, problem


def fault_line(fault: Any) -> str:
    """Format a fault of a job graph as one line."""
    if not isinstance(fault, Mapping):
        return _one_line(fault)
    where = ".".join(str(part) for part in (fault.get("vertex"), fault.get("field")) if part)
    message = _one_line(fault.get("message", ""))
    return f"{where}: {message}" if where else message


def _invalid_fields(details: Sequence[Any]) -> str:
    """Return FastAPI's messages about a request that is not valid for the route."""
    return "; ".join(
        f"{'.'.join(map(str, one.get('loc', ())))}: {_one_line(one.get('msg', ''))}"
        for one in details
        if isinstance(one, Mapping)
    )


def _reason_of(cause: Exception) -> str:
    """Return the part of OpenSSL's message that says what is wrong."""
    return str(cause).partition("verify failed: ")[2].partition(" (_ssl")[0] or str(cause)


def _bare(response: httpx.Response) -> str:
    request = response.request
    return (
        f"{request.method} {request.url} was answered "
        f"{response.status_code} {response.reason_phrase}"
    )


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())
