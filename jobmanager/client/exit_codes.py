"""The exit codes of `headgate`, which scripts may rely on (docs/command-line.md)."""

from jobmanager.client.errors import (
    ConflictingRequest,
    HeadgateError,
    JobEnded,
    MissingResource,
    NotAuthenticated,
    NotPermitted,
    ServerNotReady,
    ServerUnreachable,
    UnknownJob,
    WaitTimeout,
)

FAILED = 1
"""The server refused the request, or what was asked for failed."""
USAGE = 2
"""The command line was not understood."""
DIFFERS = 2
"""`headgate diff`: something differs. There a command line that was not understood is 1."""
UNREACHABLE = 3
"""No server answers, or it is not ready."""
NOT_FOUND = 4
"""There is no such job, checkpoint, savepoint …"""
CONFLICT = 5
"""The present state forbids the request."""
JOB_ENDED = 6
"""The job ended in another state than the one that was awaited."""
NOT_PERMITTED = 7
"""The token is missing, not known, or its role is too small."""
TIME_IS_UP = 124
"""What was awaited has not happened in time, as `timeout` says it."""
INTERRUPTED = 130
"""By Ctrl-C."""

_BY_ERROR: dict[type[HeadgateError], int] = {
    ServerUnreachable: UNREACHABLE,
    ServerNotReady: UNREACHABLE,
    UnknownJob: NOT_FOUND,
    MissingResource: NOT_FOUND,
    ConflictingRequest: CONFLICT,
    JobEnded: JOB_ENDED,
    NotAuthenticated: NOT_PERMITTED,
    NotPermitted: NOT_PERMITTED,
    WaitTimeout: TIME_IS_UP,
}


def code_of(error: HeadgateError) -> int:
    return next((_BY_ERROR[kind] for kind in type(error).__mro__ if kind in _BY_ERROR), FAILED)
