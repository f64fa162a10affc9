"""What kind of failure an exception is, told by the names and words it carries."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jobmanager.core.failure import Failure, FailureKind

_INVALID_JOB = (
    "AnalysisException",
    "ParseException",
    "InvalidJobGraph",
    "InvalidVertex",
    "UnsupportedStorage",
    "RestoreRefused",
    "OutputLost",
)
_SAYS_WHERE = ("InvalidVertex", "InvalidJobGraph", "RestoreRefused", "OutputLost")
_OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError", "SparkOutOfMemoryError")
_USER_CODE = ("PythonException",)
_DATA_ERROR_CLASSES = (
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "ARITHMETIC_OVERFLOW",
    "FAILED_READ_FILE",
    "MALFORMED_RECORD_IN_PARSING",
    "CANNOT_PARSE_JSON_FIELD",
    "INVALID_ARRAY_INDEX",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "CANNOT_PARSE_TIMESTAMP",
    "BINARY_ARITHMETIC_OVERFLOW",
    "INTERVAL_ARITHMETIC_OVERFLOW",
    "CONVERSION_INVALID_INPUT",
)
_INVALID_ERROR_CLASSES = ("PATH_NOT_FOUND", "UNRESOLVED_COLUMN", "STREAMING_OUTPUT_MODE")
_DATA = re.compile(r"\[(" + "|".join(_DATA_ERROR_CLASSES) + r")\b")
_INVALID = re.compile(r"\[(" + "|".join(_INVALID_ERROR_CLASSES) + r")\b")
_MOST_OF_A_MESSAGE = 1_000


@dataclass(frozen=True, slots=True)
class Cause:
    """One link of an exception's chain of causes."""

    name: str
    """Its class, without the package."""
    message: str


def classify(causes: Sequence[Cause], stack: str, region: str | None) -> Failure:
    """The failure that a chain of causes, outermost first, amounts to."""
    kind = _kind(causes, stack)
    root = _telling(causes, kind)
    return Failure(
        kind=kind,
        message=_one_line(root),
        stack=stack,
        is_restartable=kind is not FailureKind.INVALID_JOB,
        region=region,
    )


def _kind(causes: Sequence[Cause], stack: str) -> FailureKind:
    names = [cause.name for cause in causes]
    words = "\n".join(cause.message for cause in causes)
    if any(name in _OUT_OF_MEMORY for name in names) or "java.lang.OutOfMemoryError" in stack:
        return FailureKind.OUT_OF_MEMORY
    if _DATA.search(words):
        return FailureKind.DATA
    if any(name in _INVALID_JOB for name in names) or _INVALID.search(words):
        return FailureKind.INVALID_JOB
    if any(name in _USER_CODE for name in names):
        return FailureKind.USER_CODE
    return FailureKind.INFRASTRUCTURE


def _telling(causes: Sequence[Cause], kind: FailureKind) -> Cause:
    """The cause a reader should see first: the innermost that says the kind, or just it."""
    marks = {
        FailureKind.DATA: lambda cause: _DATA.search(cause.message) is not None,
        FailureKind.INVALID_JOB: lambda cause: cause.name in _INVALID_JOB,
        FailureKind.USER_CODE: lambda cause: cause.name in _USER_CODE,
    }
    located = [cause for cause in causes if cause.name in _SAYS_WHERE]
    is_mark = marks.get(kind)
    telling = [cause for cause in causes if is_mark is not None and is_mark(cause)]
    spoken = [cause for cause in causes if cause.message.strip()]
    for found in (located, telling, spoken, causes):
        if found:
            return found[-1]
    return Cause("Unknown", "the attempt ended without saying why")


def _one_line(cause: Cause) -> str:
    lines = [line.strip() for line in cause.message.splitlines() if line.strip()]
    text = lines[0] if lines else "no message"
    if cause.name in _USER_CODE and lines:
        text = next(
            (line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception)", line)), text
        )
    line = text if text.startswith("[") else f"{cause.name}: {text}"
    return line if len(line) <= _MOST_OF_A_MESSAGE else line[:_MOST_OF_A_MESSAGE] + "…"
