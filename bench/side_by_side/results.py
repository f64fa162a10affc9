"""Measurements as a JSON document with facts of the machine, and as a table."""

import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import psutil

_MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Measurement:
    line: str
    format: str
    engine: str
    round: int
    seconds: float
    rows: int
    results: int


def document(measured: Sequence[Measurement], rows: int, rounds: int) -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "rows": rows,
        "rounds": rounds,
        "lines": list(_lines(measured)),
        "measurements": [asdict(one) for one in measured],
    }


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "memory_mib": psutil.virtual_memory().total // _MEBIBYTE,
        "system": platform.platform(),
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _lines(measured: Iterable[Measurement]) -> Iterable[dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, list[Measurement]]] = {}
    for one in measured:
        by_engine = found.setdefault((one.line, one.format), {})
        by_engine.setdefault(one.engine, []).append(one)
    for (line, file_format), by_engine in found.items():
        results = {one.results for each in by_engine.values() for one in each}
        yield {
            "line": line,
            "format": file_format,
            "agree": len(results) == 1,
            "engines": {engine: _figures(each) for engine, each in by_engine.items()},
        }


def _figures(each: Sequence[Measurement]) -> dict[str, float]:
    """The first run, and the median of the later ones, where there are any."""
    ordered = sorted(each, key=lambda one: one.round)
    seconds = [one.seconds for one in ordered]
    later = seconds[1:] or seconds
    median = statistics.median(later)
    return {
        "first": seconds[0],
        "median": median,
        "least": min(later),
        "most": max(later),
        "rows_per_second": ordered[0].rows / median,
    }


def ratio(line: Mapping[str, Any], other: str) -> float | None:
    """Headgate's throughput, as a multiple of that of another engine."""
    engines = line["engines"]
    if "headgate" not in engines or other not in engines:
        return None
    return float(engines[other]["median"] / engines["headgate"]["median"])


def markdown(found: Mapping[str, Any]) -> str:
    names = _engines(found)
    header = ["line", "input", *(f"{one}, s" for one in names)]
    header += [f"ratio to {one}" for one in names if one != "headgate"]
    rows = [[*_cells(line, names)] for line in found["lines"]]
    return "".join(
        "| " + " | ".join(one) + " |\n" for one in (header, ["---"] * len(header), *rows)
    )


def _engines(found: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(one for line in found["lines"] for one in line["engines"]))


def _cells(line: Mapping[str, Any], names: Sequence[str]) -> Iterable[str]:
    yield line["line"] if line["agree"] else f"{line['line']} (results differ)"
    yield line["format"]
    for name in names:
        one = line["engines"].get(name)
        yield f"{one['median']:.1f} ({one['least']:.1f} to {one['most']:.1f})" if one else ""
    for name in names:
        if name != "headgate":
            found = ratio(line, name)
            yield f"{found:.2f}" if found else ""
