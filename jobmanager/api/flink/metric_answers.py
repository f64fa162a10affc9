"""How Flink's metrics routes answer: names, values, or aggregates of values.

without `get`                 the names
with `get`                    the values of those that there are
aggregated, with `get`        minimum, maximum, average, sum and skew of several components'
                              values; nothing at all if one of the names is unknown
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jobmanager.core.errors import MalformedRequest

Metrics = Mapping[str, int | float | str]
"""The metrics of one component, by name."""
_MODES = ("min", "max", "avg", "sum", "skew")


def listed(text: str) -> list[str]:
    """Return the items of a list that is separated by commas."""
    return [one for one in text.split(",") if one]


def answer(metrics: Metrics, get: str) -> list[dict[str, str]]:
    """Answer for one component."""
    asked = listed(get)
    if not asked:
        return [{"id": name} for name in metrics]
    return [
        {"id": name, "value": _text(metrics[name])}
        for name in dict.fromkeys(asked)
        if name in metrics
    ]


def aggregated(
    components: Sequence[Metrics], get: str, agg: str, whole: Metrics | None = None
) -> list[dict[str, Any]]:
    """Answer for several components. A metric that is no number is left out. `whole` has what is
    known of all components together: a metric that is unknown of each has a sum and an average.
    """
    modes = [one.lower() for one in listed(agg)] or list(_MODES)
    for mode in modes:
        if mode not in _MODES:
            raise MalformedRequest(f"agg is {mode!r}: use {', '.join(_MODES)}")
    asked = listed(get)
    if not asked:
        names = dict.fromkeys(name for one in (*components, whole or {}) for name in one)
        return [{"id": name} for name in names]
    found = []
    for name in asked:
        values = [one[name] for one in components if name in one]
        if whole is not None and name in whole and not _are_known(values):
            together = _of_whole(float(whole[name]), len(components), modes)
            if not together:
                return []
            found.append({"id": name, **together})
            continue
        if not values:
            return []
        numbers = [float(one) for one in values if not isinstance(one, str)]
        if len(numbers) == len(values):
            found.append({"id": name, **{mode: _number(mode, numbers) for mode in modes}})
    return found


def _are_known(values: Sequence[float | str]) -> bool:
    return bool(values) and not any(isinstance(one, float) and math.isnan(one) for one in values)


def _of_whole(value: float, count: int, modes: Sequence[str]) -> dict[str, float]:
    known = {"avg": value / max(1, count), "sum": value}
    return {mode: known[mode] for mode in modes if mode in known}


def _number(mode: str, numbers: Sequence[float]) -> float | str:
    value = _reduced(mode, numbers)
    return "NaN" if math.isnan(value) else value


def _reduced(mode: str, numbers: Sequence[float]) -> float:
    if any(math.isnan(one) for one in numbers):
        return math.nan
    match mode:
        case "min":
            return min(numbers)
        case "max":
            return max(numbers)
        case "sum":
            return sum(numbers)
        case "avg":
            return sum(numbers) / len(numbers)
        case _:
            return skew(numbers)


def skew(numbers: Sequence[float]) -> float:
    """Return the mean absolute deviation in per cent of the average, and 100 at most."""
    average = sum(numbers) / len(numbers)
    if average == 0:
        return 0.0
    deviation = sum(abs(average - one) for one in numbers) / len(numbers)
    return min(deviation / average * 100, 100.0)


def _text(value: float | str) -> str:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else str(round(value, 3))
    return str(value)
