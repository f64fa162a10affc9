"""Errors that the client raises.

    HeadgateError
      ServerUnreachable     no answer at all
      RequestRefused        the server's own message: problem+json, or Flink's errors
      AmbiguousJob          a prefix or name that matches several jobs, or none
      UnreadableGraph       a job-graph file that cannot be read, or is not a mapping

Every message is one line, and says what to do where that is known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import httpx


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


class UnreadableGraph(HeadgateError):
    pass


class RequestRefused(HeadgateError):
    """The server answered with an error."""

    def __init__(self, status: int, message: str, faults: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.faults = tuple(faults)


def refusal_of(response: httpx.Response) -> RequestRefused:
    """Make the error from an answer, in either format: problem+json or Flink's."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, Mapping):
        return RequestRefused(response.status_code, _bare(response))
    if isinstance(body.get("errors"), list):
        said = "; ".join(_one_line(error) for error in body["errors"])
        return RequestRefused(response.status_code, said or _bare(response))
    faults = [fault_line(fault) for fault in body.get("faults") or ()]
    title, detail = _one_line(body.get("title", "")), _one_line(body.get("detail", ""))
    if faults:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        message = f"{title or 'The job graph was refused'} ({count})"
    elif isinstance(body.get("detail"), list):
        message = f"{title or 'The request is not valid'}: {_invalid_fields(body['detail'])}"
    else:
        message = ": ".join(part for part in (title, detail) if part) or _bare(response)
    return RequestRefused(response.status_code, message, faults)


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
