"""Measurements as a JSON document, as a table, and as the growth with the number of rows."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Measurement:
    line: str
    format: str
    engine: str
    round: int
    seconds: float
    rows: int
    results: int


def document(measured: Sequence[Measurement], rows: Sequence[int], rounds: int) -> dict[str, Any]:
    return {
        "rows": list(rows),
        "rounds": rounds,
        "lines": list(_lines(measured)),
        "measurements": [asdict(one) for one in measured],
    }


def _lines(measured: Iterable[Measurement]) -> Iterable[dict[str, Any]]:
    found: dict[tuple[str, str, int], dict[str, list[Measurement]]] = {}
    for one in measured:
        by_engine = found.setdefault((one.line, one.format, one.rows), {})
        by_engine.setdefault(one.engine, []).append(one)
    for (line, file_format, rows), by_engine in found.items():
        results = {one.results for each in by_engine.values() for one in each}
        yield {
            "line": line,
            "format": file_format,
            "rows": rows,
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


def growth_points(found: Mapping[str, Any], line: str) -> dict[str, list[tuple[int, float]]]:
    """For each engine, seconds for each number of rows of a line."""
    points: dict[str, list[tuple[int, float]]] = {}
    for one in found["lines"]:
        if one["line"] == line:
            for engine, figures in one["engines"].items():
                points.setdefault(engine, []).append((one["rows"], figures["median"]))
    return {engine: sorted(each) for engine, each in points.items()}


def slope(points: Sequence[tuple[int, float]]) -> float:
    """Of the straight line through the logarithms: 1 is proportional, below 1 is better."""
    across = [math.log(rows) for rows, _ in points]
    return statistics.linear_regression(across, [math.log(took) for _, took in points]).slope


def slopes(found: Mapping[str, Any]) -> list[list[str]]:
    """For each line, the slope of each engine."""
    names = _engines(found)
    lines = dict.fromkeys(one["line"] for one in found["lines"])
    every = [(line, growth_points(found, line)) for line in lines]
    return [
        [line, *(f"{slope(points[one]):.2f}" if one in points else "" for one in names)]
        for line, points in every
    ]


def markdown(found: Mapping[str, Any]) -> str:
    names = _engines(found)
    header = ["line", "input", "rows", *(f"{one}, s" for one in names)]
    header += [f"ratio to {one}" for one in names if one != "headgate"]
    rows = [[*_cells(line, names)] for line in found["lines"]]
    text = _table([header, ["---"] * len(header), *rows])
    if len(found["rows"]) > 1:
        header = ["slope of seconds against rows", *names]
        text += "\n" + _table([header, ["---"] * len(header), *slopes(found)])
    return text


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "".join("| " + " | ".join(one) + " |\n" for one in rows)


def _engines(found: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(one for line in found["lines"] for one in line["engines"]))


def _cells(line: Mapping[str, Any], names: Sequence[str]) -> Iterable[str]:
    yield line["line"] if line["agree"] else f"{line['line']} (results differ)"
    yield line["format"]
    yield f"{line['rows'] / 1e6:g} M"
    for name in names:
        one = line["engines"].get(name)
        yield f"{one['median']:.1f} ({one['least']:.1f} to {one['most']:.1f})" if one else ""
    for name in names:
        if name != "headgate":
            found = ratio(line, name)
            yield f"{found:.2f}" if found else ""
