"""Classifies exceptions: the kind of failure, and whether a restart could help.

The class name of an exception, Spark's error condition (`[DIVIDE_BY_ZERO]`) and above all its
SQLSTATE decide. The first two characters of a SQLSTATE are a class in the SQL standard: 22 is
about data, 42 about syntax and names. The innermost cause that can be classified decides; the
exceptions around it only say where it happened.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobmanager.core.life.failure import Failure, FailureKind

_NAMES: Mapping[str, FailureKind] = {
    **dict.fromkeys(
        ("OutOfMemoryError", "MemoryError", "SparkOutOfMemoryError"), FailureKind.OUT_OF_MEMORY
    ),
    **dict.fromkeys(
        (
            "AnalysisException",
            "ExtendedAnalysisException",
            "ParseException",
            "InvalidJobGraph",
            "InvalidVertex",
            "UnsupportedStorage",
            "RestoreRefused",
            "PathNotAllowed",
            "OutputLost",
            "ColumnsDiffer",
            "TableUnfit",
            "SecretMissing",
        ),
        FailureKind.INVALID_JOB,
    ),
    "KeyInvalid": FailureKind.DATA,
    "PythonException": FailureKind.USER_CODE,
    # the cause of "a file could not be read": the network's fault, not the file's
    **dict.fromkeys(
        (
            "ConnectException",
            "ConnectTimeoutException",
            "NoRouteToHostException",
            "SocketException",
            "SocketTimeoutException",
            "UnknownHostException",
            # output is not where it should be: a failed mount, not the job's fault
            "BatchIncomplete",
            "DirectoryNotShared",
            "OutputFileChanged",
            "OutputNotMounted",
            # installed anew, the job runs again
            "ConnectorJarDamaged",
            # no JobManager for too long: nobody's fault
            "JobManagerLost",
            # a real-time job needs more slots than it has: the next attempt counts again
            "NotEnoughSlots",
            "PartitionsAdded",
        ),
        FailureKind.INFRASTRUCTURE,
    ),
}
_STATES: Mapping[str, FailureKind] = {
    "21": FailureKind.DATA,
    "22": FailureKind.DATA,
    "23": FailureKind.DATA,
    "KD000": FailureKind.DATA,  # malformed CSV and the like
    "KD001": FailureKind.DATA,  # a file that cannot be read
    "KD003": FailureKind.DATA,
    "KD009": FailureKind.DATA,  # partition directories that contradict each other
    "07": FailureKind.INVALID_JOB,
    "0A": FailureKind.INVALID_JOB,  # Spark has no such feature
    "42": FailureKind.INVALID_JOB,
    "46": FailureKind.INVALID_JOB,
    "38": FailureKind.USER_CODE,
    "39": FailureKind.USER_CODE,
    "P0": FailureKind.USER_CODE,  # raise_error, assert_true
    "53200": FailureKind.OUT_OF_MEMORY,
    "82": FailureKind.OUT_OF_MEMORY,
}
"""SQLSTATE, or its class, to the kind of failure."""
_INCURABLE = re.compile(
    r"\[(FAILED_READ_FILE\.(PARQUET_COLUMN_DATA_TYPE_MISMATCH|FILE_NOT_EXIST)"
    r"|STATE_STORE_\w+_SCHEMA_NOT_COMPATIBLE|STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION)\b"
)
"""Errors that no restart cures although the graph alone is not wrong: the schema does not fit
the files or the state, or a file that belongs to a batch is gone."""
_MEMORY = re.compile(
    r"java\.lang\.OutOfMemoryError|Java heap space|GC overhead limit exceeded|OOMKilled"
    r"|exceeding (physical |virtual )?memory limits|exit(ed with)? (code|status) 137"
    r"|Cannot allocate memory|unable to create (new )?native thread"
    r"|Unable to acquire \d+ bytes of memory|^MemoryError",
    re.IGNORECASE | re.MULTILINE,
)
_LOST = re.compile(r"ExecutorLostFailure|Executor heartbeat timed out|worker lost", re.IGNORECASE)
_MOVED = re.compile(r"Wrong basePath (\S+) for the root path: (\S+)")
_USER_CODE = re.compile(r"^taskrunner\.keyed\.errors\.UserCodeError: (.*)", re.MULTILINE)
_CODE_IN_STATE = re.compile(r"^taskrunner\.keyed\.plain_pickle\.CodeInState: (.*)", re.MULTILINE)
_STATE = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")
_OUR_SINK = "[FOREACH_BATCH_USER_FUNCTION_ERROR]"
"""Spark's condition for errors in a user's `foreachBatch` function, which here is our sink."""
_SAYS_WHERE = ("InvalidVertex", "InvalidJobGraph", "RestoreRefused", "OutputLost")
_MOST_OF_A_MESSAGE = 1_000


@dataclass(frozen=True, slots=True)
class Cause:
    """One link of an exception's chain of causes."""

    name: str
    """Its class, without the package."""
    message: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a connector makes of a chain of causes."""

    kind: FailureKind
    message: str
    """What happened, and what to do."""
    is_restartable: bool


Explain = Callable[[Sequence[Cause]], Explanation | None]
"""Recognises a failure, the outermost cause first; None: it is some other failure."""


def no_explanation(causes: Sequence[Cause]) -> Explanation | None:
    """Recognises nothing."""
    return None


def classify(
    causes: Sequence[Cause], stack: str, region: str | None, explain: Iterable[Explain] = ()
) -> Failure:
    """Classifies a chain of causes, outermost first. What connectors recognise comes first."""
    for told in filter(None, (one(causes) for one in explain)):
        return Failure(told.kind, _shortened(told.message), stack, told.is_restartable, region)
    if moved := _MOVED.search("\n".join(cause.message for cause in causes)):
        return _input_moved(moved[1], moved[2], stack, region)
    for cause in causes:
        if refused := _CODE_IN_STATE.search(cause.message):
            return _state_refused(refused[1], stack, region)
    kind, root = _decide(causes, stack)
    incurable = any(_INCURABLE.search(cause.message) for cause in causes)
    return Failure(
        kind=kind,
        message=_one_line(root),
        stack=stack,
        is_restartable=kind is not FailureKind.INVALID_JOB and not incurable,
        region=region,
    )


def _input_moved(now: str, before: str, stack: str, region: str | None) -> Failure:
    """The failure for input that was moved: Spark would say "Wrong basePath" at every start."""
    return Failure(
        kind=FailureKind.INVALID_JOB,
        message=(
            f"the input of a files source has moved: the restored state has read {before}, "
            f"and the graph now says {now}; put the files back, or start without that state"
        ),
        stack=stack,
        is_restartable=False,
        region=region,
    )


def _state_refused(message: str, stack: str, region: str | None) -> Failure:
    """It is the same state at every start."""
    return Failure(
        kind=FailureKind.INVALID_JOB,
        message=f"{_shortened(message)}; start the job from another savepoint, or without state",
        stack=stack,
        is_restartable=False,
        region=region,
    )


def _decide(causes: Sequence[Cause], stack: str) -> tuple[FailureKind, Cause]:
    """The kind of failure, and the cause that a reader should see first."""
    spoken = [cause for cause in causes if cause.message.strip()]
    innermost = (spoken or list(causes) or [_UNKNOWN])[-1]
    for cause in reversed(causes):
        kind = _kind_of(cause)
        if kind is not None:
            located = [one for one in causes if one.name in _SAYS_WHERE]
            says_more = located[-1:] if kind is FailureKind.INVALID_JOB else []
            return kind, (*says_more, cause)[0]
    if _MEMORY.search(stack):
        return FailureKind.OUT_OF_MEMORY, innermost
    return FailureKind.INFRASTRUCTURE, innermost


_UNKNOWN = Cause("Unknown", "the attempt ended without an error message")


def _kind_of(cause: Cause) -> FailureKind | None:
    """The kind that this cause alone indicates; None: it cannot be classified."""
    if _MEMORY.search(cause.message):
        return FailureKind.OUT_OF_MEMORY
    if cause.name in _NAMES:
        return _NAMES[cause.name]
    for state in _states(cause):
        found = _STATES.get(state) or _STATES.get(state[:2])
        if found is not None:
            return found
    return FailureKind.LOST if _LOST.search(cause.message) else None


def _states(cause: Cause) -> Iterator[str]:
    """The SQLSTATEs in the cause's message: a quoted inner cause comes before its own."""
    if _OUR_SINK not in cause.message:
        yield from _STATE.findall(cause.message)


def _one_line(cause: Cause) -> str:
    lines = [line.strip() for line in cause.message.splitlines() if line.strip()]
    text = lines[0] if lines else "no message"
    if cause.name == "PythonException" and lines:
        # the last line of the traceback is what Python itself would print last
        text = next(
            (line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception)\b", line)), text
        )
    if ours := _USER_CODE.search(cause.message):
        # this message names the root cause first, then the place
        return _shortened(ours[1])
    return _shortened(text if text.startswith("[") else f"{cause.name}: {text}")


def _shortened(line: str) -> str:
    return line if len(line) <= _MOST_OF_A_MESSAGE else line[:_MOST_OF_A_MESSAGE] + "…"
