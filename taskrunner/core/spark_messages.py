"""Shortens Spark's messages to one line."""

import re

_AFTER = "terminated with exception: "
_ENDS = (
    "=== Streaming Query ===",
    # advice that does not apply to users of Headgate
    "If you want to force running the query",
    # plans
    "; line ",
    ";\n'",
)
_STATE = re.compile(r"\s*SQLSTATE: \w+")
_MOST = 1_000


def telling(message: str) -> str:
    """The part of a message that gives the reason."""
    text = message.rpartition(_AFTER)[2]
    for end in _ENDS:
        text = text.partition(end)[0]
    line = " ".join(_STATE.sub(" ", text).split()).rstrip(" ;")
    return line if len(line) <= _MOST else line[:_MOST] + "…"
