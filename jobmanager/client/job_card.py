"""A job as a small HTML card with its graph, for notebooks. Pure."""

from collections.abc import Mapping, Sequence
from html import escape

from jobmanager.client import answers

_COLOURS = {
    "running": "#1a7f37",
    "finished": "#0969da",
    "failed": "#cf222e",
    "stalled": "#cf222e",
    "degraded": "#9a6700",
    "restarting": "#9a6700",
}
_OTHER = "#57606a"
_BOX_WIDTH, _BOX_HEIGHT = 150, 40
_GAP_X, _GAP_Y = 46, 14
_MARGIN = 4
_LABEL = 20
"""Characters that fit into a box."""


def card(
    job_id: str, status: answers.StatusResponse, plan: answers.JobPlan, url: str | None = None
) -> str:
    """Return the HTML of a job's card."""
    name = escape(plan["name"])
    title = f'<a href="{escape(url)}">{name}</a>' if url else name
    facts = [
        ("since", status["since"][:19].replace("T", " ")),
        ("attempt", f"{status['attempt']} ({status['restarts']} restarts)"),
        ("last checkpoint", _checkpoint(status["last_checkpoint"])),
        ("reason", status["reason"]),
    ]
    rows = "".join(
        f'<tr><td style="opacity:.65;text-align:left">{label}</td>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for label, text in facts
        if text
    )
    return (
        '<div style="border:1px solid #8884;border-radius:8px;padding:10px 14px;'
        'display:inline-block;font:13px system-ui,sans-serif">'
        f'<div style="margin-bottom:6px"><b>{title}</b> {_badge(status["state"])} '
        f'<code style="opacity:.65">{escape(job_id)}</code></div>'
        f"{graph(plan['nodes'])}"
        f'<table style="margin-top:6px;border-collapse:collapse">{rows}</table></div>'
    )


def jobs_table(jobs: Sequence[answers.JobLine]) -> str:
    """Return the HTML of a list of jobs."""
    rows = "".join(
        f'<tr><td style="text-align:left">{escape(job["name"])}</td>'
        f"<td>{_badge(job['headgate-state'])}</td>"
        f"<td><code>{escape(job['jid'])}</code></td></tr>"
        for job in jobs
    )
    return f"<table><tr><th>name</th><th>state</th><th>job</th></tr>{rows}</table>"


def graph(nodes: Sequence[answers.PlanNode]) -> str:
    """Return the tasks of a job as SVG, from left to right."""
    places = layout({one["id"]: [at["id"] for at in one.get("inputs", [])] for one in nodes})
    width = max((x for x, _ in places.values()), default=0) + _BOX_WIDTH + _MARGIN
    height = max((y for _, y in places.values()), default=0) + _BOX_HEIGHT + _MARGIN
    edges = "".join(
        _edge(places[source["id"]], places[one["id"]], source["ship_strategy"])
        for one in nodes
        for source in one.get("inputs", [])
        if source["id"] in places
    )
    boxes = "".join(_box(places[one["id"]], one) for one in nodes)
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'style="max-width:100%;color:inherit" xmlns="http://www.w3.org/2000/svg">{edges}{boxes}</svg>'
    )


def layout(inputs: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, int]]:
    """Return the upper left corner of each task: its column is the longest way from a source."""
    columns: dict[str, int] = {}

    def column(task: str) -> int:
        if task not in columns:
            columns[task] = 0  # a plan has no cycles; a wrong plan must not recurse for ever
            before = [column(one) for one in inputs.get(task, ()) if one in inputs]
            columns[task] = 1 + max(before) if before else 0
        return columns[task]

    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for task in inputs:
        at = column(task)
        row = rows.get(at, 0)
        rows[at] = row + 1
        places[task] = (
            _MARGIN + at * (_BOX_WIDTH + _GAP_X),
            _MARGIN + row * (_BOX_HEIGHT + _GAP_Y),
        )
    return places


def _box(place: tuple[int, int], node: answers.PlanNode) -> str:
    x, y = place
    vertices = ", ".join(node["headgate-vertices"]) or node["operator"]
    label = vertices if len(vertices) <= _LABEL else f"{vertices[: _LABEL - 1]}…"
    return (
        f"<g><title>{escape(node['description'])}</title>"
        f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" '
        'fill="none" stroke="currentColor" stroke-opacity=".5"/>'
        f'<text x="{x + 8}" y="{y + 17}" font-size="12" fill="currentColor">{escape(label)}</text>'
        f'<text x="{x + 8}" y="{y + 32}" font-size="10" fill="currentColor" opacity=".65">'
        f"parallelism {node['parallelism']}</text></g>"
    )


def _edge(source: tuple[int, int], target: tuple[int, int], how: str) -> str:
    x1, y1 = source[0] + _BOX_WIDTH, source[1] + _BOX_HEIGHT // 2
    x2, y2 = target[0], target[1] + _BOX_HEIGHT // 2
    middle = (x1 + x2) // 2
    return (
        f'<path d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}" fill="none" '
        f'stroke="currentColor" stroke-opacity=".5"><title>{escape(how)}</title></path>'
    )


def _badge(state: str) -> str:
    colour = _COLOURS.get(state, _OTHER)
    return (
        f'<span style="background:{colour};color:#fff;border-radius:9px;padding:1px 8px;'
        f'font-size:11px">{escape(state)}</span>'
    )


def _checkpoint(last: answers.LastCheckpoint | None) -> str:
    if last is None:
        return "none yet"
    return f"{last['number']}, {last['completed_at'][:19].replace('T', ' ')}, {last['bytes']} bytes"


def sentence(text: str) -> str:
    return f"<i>{escape(text)}</i>"
