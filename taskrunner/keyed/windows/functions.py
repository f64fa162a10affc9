"""A user's function over the rows of a window.

    def top(window, rows):
        best = max(rows, key=lambda row: row["price"])
        yield {"auction": window.key["auction"], "until": window.end, "bidder": best["bidder"]}

The function gets the window and its rows, each a dict by column, and returns or yields dicts with
the columns of `output`: one, any number, or None for none. A missing column is null.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from taskrunner import functions
from taskrunner.keyed.errors import UserCodeError
from taskrunner.keyed.windows.contents import Evaluate, Frame, Results
from taskrunner.keyed.windows.spec import Function

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = _EPOCH.date().toordinal()
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class WindowSeen:
    """The window as a window function sees it."""

    key: Mapping[str, Any]
    start: datetime | None
    """None for count and global windows, as is `end`."""
    end: datetime | None
    pane: int | None
    """The number of the emission for the key, from 1; None for time windows."""


def evaluation_of(function: Function) -> Evaluate:
    """Loads the function. Raises `FunctionMissing`."""
    call: Callable[[WindowSeen, list[dict[str, Any]]], Any] = functions.load(function.reference)

    def evaluate(content: list[list[Any]], frame: Frame) -> Results:
        key, start, end, pane = frame
        named_key = {
            name: _read(name, value, function.times, function.dates)
            for name, value in zip(function.key, key, strict=True)
        }
        window = WindowSeen(named_key, _time(start), _time(end), pane)
        columns = [
            [_read(name, value, function.times, function.dates) for value in content[at]]
            if name in function.times or name in function.dates
            else content[at]
            for name, at in zip(function.names, function.columns, strict=True)
        ]
        rows = [dict(zip(function.names, row, strict=True)) for row in zip(*columns, strict=True)]
        try:
            given = list(_listed(function, call(window, rows)))
        except UserCodeError:
            raise
        except Exception as error:
            raise UserCodeError.raised(
                error, function.vertex, function.reference, named_key
            ) from error
        return [_row(function, one) for one in given]

    return evaluate


def _listed(function: Function, given: Any) -> Iterable[Any]:
    if given is None:
        return ()
    if isinstance(given, Mapping):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return given
    raise _misfit(function, f"{given!r} is neither a dict, nor any number of dicts, nor None")


def _row(function: Function, given: Any) -> tuple[Any, ...]:
    if not isinstance(given, Mapping):
        raise _misfit(function, f"{given!r} is not a dict")
    if unknown := [name for name in given if name not in function.output]:
        raise _misfit(
            function,
            f"a column {unknown[0]!r}, where the output has only {', '.join(function.output)}",
        )
    return tuple(
        _write(name, given.get(name), function.output_times, function.output_dates)
        for name in function.output
    )


def _misfit(function: Function, what: str) -> UserCodeError:
    return UserCodeError.gave(function.vertex, function.reference, what)


def _read(name: str, value: Any, times: frozenset[str], dates: frozenset[str]) -> Any:
    if value is None:
        return None
    if name in times:
        return _time(value)
    return date.fromordinal(_FIRST_DAY + value) if name in dates else value


def _write(name: str, value: Any, times: frozenset[str], dates: frozenset[str]) -> Any:
    if value is None:
        return None
    if name in times:
        # a time without a zone is in UTC
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    return value.toordinal() - _FIRST_DAY if name in dates else value


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)
