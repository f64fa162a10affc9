"""Formats keyed state for the command line."""

import json
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from jobmanager.client import answers, display

_BAR = 40
_MOST_GROUPS = 20


def show(table: Table) -> None:
    display.console().print(table)


Source = answers.StateList | answers.RowPage | answers.KeyResponse | answers.KeyGroupHistogram


def source(found: Source) -> str:
    """Format as one line which snapshot the answer was read from."""
    name = f"checkpoint {found['checkpoint']}"
    if found["savepoint"]:
        name = f"savepoint {found['savepoint']}"
    return f"from {name}, completed {found['completed_at']}"


def states(listed: Sequence[answers.StateResponse]) -> Table:
    table = display.folding_table("VERTEX", "NAME", "REGION", "SUBTASKS", "KEY", "VALUE")
    for one in listed:
        table.add_row(
            one["vertex"],
            one["name"],
            one["region"],
            str(one["subtasks"]),
            Text(one["key_schema"] or "-"),
            Text(one["value_schema"]),
        )
    return table


def rows(listed: Sequence[answers.RowResponse]) -> Table:
    keys = list(listed[0]["key"]) if listed else []
    values = list(listed[0]["value"]) if listed else []
    table = display.folding_table(*(Text(name) for name in keys + values), "KEY GROUP", "SUBTASK")
    for one in listed:
        table.add_row(
            *(cell(one["key"][name]) for name in keys),
            *(cell(one["value"][name]) for name in values),
            cell(one["key_group"]),
            str(one["subtask"]),
        )
    return table


def histogram(found: answers.KeyGroupHistogram) -> Table:
    """Show the largest groups, each with a bar."""
    groups = sorted(found["groups"], key=lambda one: one["rows"], reverse=True)
    most = groups[0]["rows"] if groups else 1
    table = display.folding_table("KEY GROUP", "SUBTASK", "ROWS", "BYTES", "")
    for one in groups[:_MOST_GROUPS]:
        bar = "█" * max(1, round(_BAR * one["rows"] / most))
        table.add_row(
            cell(one["key_group"]),
            str(one["subtask"]),
            str(one["rows"]),
            display.size(one["bytes"]),
            bar,
        )
    return table


def balance(found: answers.KeyGroupHistogram) -> str:
    """Describe in one line how evenly rows are spread over the key groups."""
    more = len(found["groups"]) - _MOST_GROUPS
    parts = [f"and {more} smaller groups"] if more > 0 else []
    parts.append(f"{found['empty_groups']} of {found['max_parallelism']} key groups are empty")
    skew = found["skew"]["rows"]
    if skew is not None:
        parts.append(f"the largest has {skew:.1f} times the mean")
    return "; ".join(parts)


def cell(value: Any) -> Text:
    """Format a value literally: text is not read as markup."""
    if value is None:
        return Text("null", style="dim")
    return Text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
