"""Flink's statistics over checkpoints: minimum, maximum, average, percentiles."""

from collections.abc import Mapping, Sequence
from typing import Any

_FIELDS = (
    "checkpointed_size",
    "state_size",
    "end_to_end_duration",
    "alignment_buffered",
    "processed_data",
    "persisted_data",
)
_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def summary(checkpoints: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {field: statistics([one[field] for one in checkpoints]) for field in _FIELDS}


def statistics(values: Sequence[int]) -> dict[str, Any]:
    if not values:
        return {"min": 0, "max": 0, "avg": 0, **dict.fromkeys(_PERCENTILES, "NaN")}
    ordered = sorted(values)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": sum(ordered) // len(ordered),
        **{name: _percentile(ordered, q) for name, q in _PERCENTILES.items()},
    }


def _percentile(ordered: Sequence[int], q: float) -> float:
    """Interpolate linearly between the two nearest ranks."""
    position = min(max(q * (len(ordered) + 1), 1), len(ordered)) - 1
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
