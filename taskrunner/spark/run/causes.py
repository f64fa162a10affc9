"""The chain of causes of an exception, on both sides of the bridge to the JVM."""

import re
import traceback

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException, UnknownException

from taskrunner.core.failures import Cause

# `: name: message` is how py4j begins the text of a Java exception. A message continues until
# the first line of its stack.
_JAVA_CAUSE = re.compile(
    r"^(?:Caused by|): ([\w.$]+)(?:: (.*(?:\n(?!\s+at |\s*\.\.\. \d|Caused by: ).*)*))?",
    re.MULTILINE,
)
_JAVA_NAME = re.compile(r"([\w.$]+)(?::|$)")
_MOST_OF_A_STACK = 100_000


def causes_of(error: BaseException) -> list[Cause]:
    """The causes of `error`, the outermost first."""
    found: list[Cause] = []
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        found.append(Cause(_name(link), _message(link)))
        found += _java_causes(link)
        link = _cause(link)
    return found


def stack_of(error: BaseException) -> str:
    """The whole stack trace; of a very long one only the beginning and the end."""
    parts = ["".join(traceback.format_exception(error))]
    link: BaseException | None = error
    while link is not None:
        java = _java_stack(link)
        if java and not any(java in part for part in parts):
            parts.append(java)
        link = _cause(link)
    whole = "\n".join(parts)
    if len(whole) <= _MOST_OF_A_STACK:
        return whole
    half = _MOST_OF_A_STACK // 2
    return f"{whole[:half]}\n… {len(whole) - 2 * half} characters …\n{whole[-half:]}"


def _cause(error: BaseException) -> BaseException | None:
    """The cause of an exception; Spark's exceptions keep it in an attribute of their own."""
    within = error._cause if isinstance(error, CapturedException) else None
    return error.__cause__ or within


def _java_causes(error: BaseException) -> list[Cause]:
    return [
        Cause(match[1].rpartition(".")[2], (match[2] or "").strip())
        for match in _JAVA_CAUSE.finditer(_java_stack(error))
    ]


def _java_stack(error: BaseException) -> str:
    if isinstance(error, CapturedException):
        return str(error._stackTrace or "")
    if isinstance(error, Py4JJavaError):
        return str(error)
    return ""


def _name(error: BaseException) -> str:
    """The class name; for an exception that PySpark does not know, its Java class."""
    if isinstance(error, UnknownException):
        match = _JAVA_NAME.match(error._desc or "")
        if match is not None:
            return match[1].rpartition(".")[2]
    return type(error).__name__


def _message(error: BaseException) -> str:
    if isinstance(error, UnknownException):
        return (error._desc or "").partition(": ")[2]
    if isinstance(error, PySparkException) and not isinstance(error, CapturedException):
        return error.getMessage() or str(error)
    if isinstance(error, CapturedException):
        return error._desc or ""
    if isinstance(error, Py4JError):
        return str(error).splitlines()[0] if str(error) else ""
    return str(error)
