"""Times as Flink writes them: milliseconds since 1970."""

from datetime import datetime


def millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
