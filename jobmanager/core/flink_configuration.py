"""Settings of Flink that a client sends when it runs a jar, and what they change about the job.

Flink ignores settings that it does not know, and so does this. What is understood:

    parallelism.default                                 the job's parallelism
    pipeline.name                                       the job's name
    pipeline.max-parallelism                            max_parallelism
    execution.checkpointing.interval, .timeout, .min-pause
    execution.state-recovery.path                       what the job starts from
    execution.state-recovery.ignore-unclaimed-state     whether state may be dropped
    spark.*                                             Spark settings of the job
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from jobmanager.core.durations import render
from jobmanager.core.errors import MalformedRequest

_CHECKPOINTING = {
    "execution.checkpointing.interval": "interval",
    "execution.checkpointing.timeout": "timeout",
    "execution.checkpointing.min-pause": "min_pause",
}
_DURATION = re.compile(r"(\d{1,12})\s*([a-z]*)", re.IGNORECASE)
_UNITS = {
    timedelta(milliseconds=1): ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
    timedelta(seconds=1): ("s", "sec", "secs", "second", "seconds"),
    timedelta(minutes=1): ("m", "min", "minute", "minutes"),
    timedelta(hours=1): ("h", "hour", "hours"),
    timedelta(days=1): ("d", "day", "days"),
}


def with_configuration(
    document: Mapping[str, Any], configuration: Mapping[str, str]
) -> dict[str, Any]:
    """Return the job graph with what the settings change about it."""
    changed = dict(document)
    if name := configuration.get("pipeline.name"):
        changed["name"] = name
    if (most := whole(configuration, "pipeline.max-parallelism")) is not None:
        changed["max_parallelism"] = most
    timing = {
        ours: render(_duration(flinks, configuration[flinks]))
        for flinks, ours in _CHECKPOINTING.items()
        if flinks in configuration
    }
    if timing:
        changed["checkpointing"] = {**_mapping(document.get("checkpointing")), **timing}
    spark = {name: text for name, text in configuration.items() if name.startswith("spark.")}
    if spark:
        changed["spark"] = {**_mapping(document.get("spark")), **spark}
    return changed


def whole(configuration: Mapping[str, str], name: str) -> int | None:
    """Return a setting that is a whole number; None: it is not given."""
    text = configuration.get(name)
    if text is None:
        return None
    if not text.strip().isascii() or not text.strip().isdigit():
        raise MalformedRequest(f"{name} is {text!r}, not a whole number")
    return int(text)


def _duration(name: str, text: str) -> timedelta:
    """Read a duration as Flink writes it: `10 s`, `10s`, `500` (milliseconds)."""
    found = _DURATION.fullmatch(text.strip())
    unit = found[2].lower() if found else ""
    for length, words in _UNITS.items():
        if found and unit in words:
            try:
                return int(found[1]) * length
            except OverflowError:
                break
    raise MalformedRequest(f"{name} is {text!r}, not a duration such as 10 s, 500 ms or 5 min")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
