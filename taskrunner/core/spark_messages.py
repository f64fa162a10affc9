"""What Spark's messages say, in one line."""

import re

_AFTER = "terminated with exception: "
_ENDS = (
    "=== Streaming Query ===",
    # advice that no user of Headgate can take
    "If you want to force running the query",
    # plans
    "; line ",
    ";\n'",
)
_STATE = re.compile(r"\s*SQLSTATE: \w+")
_MOST = 1_000


def telling(message: str) -> str:
    """The part of a message that tells the reason."""
    text = message.rpartition(_AFTER)[2]
    for end in _ENDS:
        text = text.partition(end)[0]
    line = " ".join(_STATE.sub(" ", text).split()).rstrip(" ;")
    return line if len(line) <= _MOST else line[:_MOST] + "…"
