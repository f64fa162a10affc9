"""Plots of results as SVG, for docs/benchmarks.md.

    python -m bench.plots        # of all files in bench/results

Bars show Headgate's throughput as a multiple of that of another engine; points show how the time
grows with the size of the input, with both axes logarithmic.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from bench.side_by_side.results import growth_points, ratio
from bench.support import RESULTS, say

PLOTS = RESULTS.parents[1] / "docs" / "plots"
_COLOURS = {
    "headgate": "#0f766e",
    "pyspark": "#d97706",
    "defaults": "#9ca3af",
    "flink": "#db2777",
}
_WIDTH, _LEFT, _RIGHT = 760, 210, 60
_BAR, _GAP, _HEAD = 14, 10, 56
_HEIGHT = 360


def bars(found: Mapping[str, Any]) -> str:
    """For each line, and each other engine, a bar as long as the ratio."""
    others = [one for one in _engines(found["lines"]) if one != "headgate"]
    groups = [
        (f"{line['line']}, {line['format']}", [(one, ratio(line, one)) for one in others])
        for line in found["lines"]
        if line["agree"]
    ]
    longest = max((value or 0 for _, each in groups for _, value in each), default=1.0)
    scale = (_WIDTH - _LEFT - _RIGHT) / max(1.2, longest)
    parts = list(_legend(others, "Throughput of Headgate / throughput of the other engine"))
    top = _HEAD
    for name, each in groups:
        height = len(each) * _BAR
        parts.append(_text(_LEFT - 8, top + height / 2 + 4, name, "end"))
        for place, (other, value) in enumerate(each):
            if value is not None:
                y = top + place * _BAR
                parts.append(_rectangle(_LEFT, y, value * scale, _BAR - 2, _COLOURS[other]))
                parts.append(_text(_LEFT + value * scale + 5, y + _BAR - 4, f"{value:.2f}"))
        top += height + _GAP
    even = _LEFT + scale
    parts.append(_line(even, _HEAD - 6, even, top - _GAP + 4, "#111827", "4 3"))
    parts.append(_text(even, top + 12, "1.0: as fast", "middle"))
    return _svg(top + 24, parts)


def growth(found: Mapping[str, Any], line: str) -> str:
    """Seconds against rows, one broken line for each engine."""
    points = growth_points(found, line)
    across = [math.log10(rows) for each in points.values() for rows, _ in each]
    up = [math.log10(seconds) for each in points.values() for _, seconds in each]
    x = _axis(min(across), max(across), _LEFT // 3, _WIDTH - _RIGHT)
    y = _axis(min(up), max(up), _HEIGHT - 40, _HEAD + 10)
    parts = list(_legend(list(points), f"{line}: seconds (up) against rows, logarithmic"))
    for engine, each in points.items():
        places = [(x(math.log10(rows)), y(math.log10(seconds))) for rows, seconds in each]
        way = " ".join(f"{left:.1f},{top:.1f}" for left, top in places)
        colour = _COLOURS[engine]
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (left, top), (rows, seconds) in zip(places, each, strict=True):
            parts.append(f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3" fill="{colour}"/>')
            parts.append(_text(left + 5, top - 5, f"{seconds:.1f} s"))
            parts.append(_text(left, _HEIGHT - 16, f"{rows / 1e6:g} M", "middle"))
    return _svg(_HEIGHT, list(dict.fromkeys(parts)))


def _axis(low: float, high: float, begin: float, end: float) -> Any:
    span = max(high - low, 1e-9)
    return lambda value: begin + (value - low) / span * (end - begin)


def _engines(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    found = {engine for line in lines for engine in line["engines"]}
    return [one for one in _COLOURS if one in found]


def _legend(names: Sequence[str], title: str) -> Iterable[str]:
    yield _text(12, 20, title, weight="bold")
    left = 12
    for name in names:
        yield _rectangle(left, 30, 12, 12, _COLOURS[name])
        yield _text(left + 17, 40, name)
        left += 40 + 8 * len(name)


def _rectangle(left: float, top: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height}" '
        f'fill="{colour}"/>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dashes: str) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1}" x2="{x2:.1f}" y2="{y2}" stroke="{colour}" '
        f'stroke-dasharray="{dashes}"/>'
    )


def _text(left: float, top: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )


def _svg(height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
        f'width="{_WIDTH}" height="{height:.0f}" font-family="sans-serif" font-size="12">'
    )
    return "\n".join(
        [head, f'<rect width="{_WIDTH}" height="{height:.0f}" fill="white"/>', *parts, "</svg>\n"]
    )


def main() -> None:
    PLOTS.mkdir(parents=True, exist_ok=True)
    for file in sorted(RESULTS.glob("*.json")):
        found = json.loads(file.read_text())
        if "measurements" not in found:
            continue
        drawn = {file.stem: bars(found)} if len(found["rows"]) == 1 else {}
        if len(found["rows"]) > 1:
            names = dict.fromkeys(line["line"] for line in found["lines"])
            drawn = {f"{file.stem}-{one.replace(', ', '-')}": growth(found, one) for one in names}
        for name, picture in drawn.items():
            target = PLOTS / f"{name.replace(' ', '-')}.svg"
            target.write_text(picture)
            say(f"written: {target.relative_to(RESULTS.parents[1])}")


if __name__ == "__main__":
    main()
