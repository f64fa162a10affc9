"""The chain of causes of an exception, on both sides of the bridge to the JVM."""

import re
import traceback

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from taskrunner.core.failures import Cause

# `: name: message` is how py4j begins the story of a Java exception
_JAVA_CAUSE = re.compile(r"^(?:Caused by|): ([\w.$]+)(?:: (.*))?$", re.MULTILINE)
_MOST_OF_A_STACK = 20_000


def causes_of(error: BaseException) -> list[Cause]:
    """What led to `error`, the outermost first."""
    found: list[Cause] = []
    link: BaseException | None = error
    while link is not None:
        found.append(Cause(type(link).__name__, _message(link)))
        found += _java_causes(link)
        link = link.__cause__
    return found


def stack_of(error: BaseException) -> str:
    """The whole story, for whoever has to look closer."""
    text = "".join(traceback.format_exception(error))
    java = _java_stack(error)
    whole = f"{text}\n{java}" if java and java not in text else text
    return whole if len(whole) <= _MOST_OF_A_STACK else whole[:_MOST_OF_A_STACK] + "\n…"


def _java_causes(error: BaseException) -> list[Cause]:
    return [
        Cause(match[1].rpartition(".")[2], match[2] or "")
        for match in _JAVA_CAUSE.finditer(_java_stack(error))
    ]


def _java_stack(error: BaseException) -> str:
    if isinstance(error, CapturedException):
        return str(error._stackTrace or "")
    if isinstance(error, Py4JJavaError):
        return str(error)
    return ""


def _message(error: BaseException) -> str:
    if isinstance(error, PySparkException) and not isinstance(error, CapturedException):
        return error.getMessage() or str(error)
    if isinstance(error, Py4JError):
        return str(error).splitlines()[0] if str(error) else ""
    return str(error)
