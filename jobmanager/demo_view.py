"""The demo's output while it runs: lines that stay, and one line that changes.

On a terminal the changing line is at the bottom, always up to date. Elsewhere it
is printed now and then. With `--json` everything is one JSON object a line.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text


class View(Protocol):
    def say(self, event: str, text: str, **facts: Any) -> None:
        """Print a line that stays."""

    def progress(self, text: str, **facts: Any) -> None:
        """Show the progress; it replaces the progress shown before."""

    def rows(self, rows: list[Mapping[str, Any]], text: str, **facts: Any) -> None:
        """Show the first rows of a result."""


class TerminalView:
    def __init__(self, live: Live) -> None:
        self._live = live

    def say(self, event: str, text: str, **facts: Any) -> None:
        self._live.console.print(Text(text))

    def progress(self, text: str, **facts: Any) -> None:
        self._live.update(Text(text, style="bold cyan"), refresh=True)

    def rows(self, rows: list[Mapping[str, Any]], text: str, **facts: Any) -> None:
        self._live.update(Text(""), refresh=True)
        self._live.console.print(text)
        self._live.console.print(_table(rows))


class PlainView:
    """`every`: seconds between two lines of progress."""

    def __init__(self, console: Console, every: float = 2.0) -> None:
        self._console = console
        self._every = every
        self._said_at = float("-inf")

    def say(self, event: str, text: str, **facts: Any) -> None:
        self._console.print(Text(text))

    def progress(self, text: str, **facts: Any) -> None:
        if time.monotonic() - self._said_at >= self._every:
            self._said_at = time.monotonic()
            self._console.print(Text(text))

    def rows(self, rows: list[Mapping[str, Any]], text: str, **facts: Any) -> None:
        self._console.print(text)
        self._console.print(_table(rows))


class JsonView:
    def say(self, event: str, text: str, **facts: Any) -> None:
        self._print({"event": event, **facts})

    def progress(self, text: str, **facts: Any) -> None:
        self._print({"event": "progress", **facts})

    def rows(self, rows: list[Mapping[str, Any]], text: str, **facts: Any) -> None:
        self._print({"event": "rows", **facts, "rows": rows})

    def _print(self, value: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(value, default=str, ensure_ascii=False) + "\n")
        sys.stdout.flush()


@contextmanager
def view(as_json: bool) -> Iterator[View]:
    """Return the view for the kind of output: terminal, plain text or JSON."""
    console = Console(highlight=False)
    if as_json:
        yield JsonView()
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield TerminalView(live)
    else:
        yield PlainView(Console(highlight=False, width=160, soft_wrap=True))


def _table(rows: list[Mapping[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in rows[0] if rows else ():
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: object) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)
