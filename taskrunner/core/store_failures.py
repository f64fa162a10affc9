"""How writing to a store of keys and values can fail, and what each failure means for the job.

Tasks write to the store. A task does not raise such a failure: it returns its name and message, and
the driver raises it (`raised`). So the failure keeps its class, and Spark does not repeat the task.
"""

from collections.abc import Sequence

from jobmanager.core.life.failure import FailureKind
from taskrunner.core.failures import Cause, Explanation


class StoreFailure(Exception):
    """A store of keys and values did not take a write; the message says what to do."""


class StoreUnreachable(StoreFailure):
    """The server does not answer."""


class StoreLoginRefused(StoreFailure):
    """The server knows no such user or password, or the user may not write."""


class StoreFull(StoreFailure):
    """The server has no room."""


class StoreRefused(StoreFailure):
    """The server refuses a write for any other reason."""


class StoreUnfit(StoreFailure):
    """The server or its configuration cannot be used by the sink at all."""


class FenceLost(StoreFailure):
    """The store has lost the sink's own record."""


class WriteOvertaken(StoreFailure):
    """The store has newer rows than those of this attempt or batch."""


class OutputTaken(StoreFailure):
    """Another job writes to the same output."""


class RowsWithoutKey(StoreFailure):
    """Rows of a batch do not fit the key of the sink."""


class RowsRefused(StoreFailure):
    """The store does not take values of rows, such as a text where a number has to be."""


_KINDS: dict[type[StoreFailure], tuple[FailureKind, bool]] = {
    StoreUnreachable: (FailureKind.INFRASTRUCTURE, True),
    StoreLoginRefused: (FailureKind.INFRASTRUCTURE, True),  # a secret may be corrected meanwhile
    StoreFull: (FailureKind.INFRASTRUCTURE, True),
    StoreRefused: (FailureKind.INFRASTRUCTURE, True),
    FenceLost: (FailureKind.INFRASTRUCTURE, True),
    WriteOvertaken: (FailureKind.INFRASTRUCTURE, True),
    OutputTaken: (
        FailureKind.INVALID_JOB,
        False,
    ),  # two jobs would take it from each other for ever
    StoreUnfit: (FailureKind.INVALID_JOB, False),
    RowsWithoutKey: (FailureKind.DATA, True),
    RowsRefused: (FailureKind.DATA, True),
}
"""The kind of failure, and whether a restart can help."""
_BY_NAME = {one.__name__: one for one in _KINDS}


def raised(name: str, message: str) -> StoreFailure:
    """The failure that a task has returned."""
    return _BY_NAME.get(name, StoreRefused)(message)


def explain(causes: Sequence[Cause]) -> Explanation | None:
    """What a chain of causes means; None: no store of keys and values is the reason."""
    for cause in causes:
        if found := _BY_NAME.get(cause.name):
            kind, is_restartable = _KINDS[found]
            return Explanation(kind, cause.message, is_restartable)
    return None
