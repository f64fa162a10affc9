"""The statistics of a Parquet file in a table's log, from which readers skip files."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

_MOST_CHARACTERS = 32
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """What the footer of a Parquet file says about one column of one row group."""

    column: str
    nulls: int | None
    least: Any = None
    greatest: Any = None
    """None: the footer does not say."""


def delta_statistics(rows: int, chunks: Iterable[ColumnChunk]) -> dict[str, Any]:
    """The statistics as Delta writes them down. A limit that is not certain is left out: readers
    then read the file.
    """
    columns: dict[str, list[ColumnChunk]] = {}
    for one in chunks:
        columns.setdefault(one.column, []).append(one)
    nulls: dict[str, int] = {}
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    for name, parts in columns.items():
        if all(part.nulls is not None for part in parts):
            nulls[name] = sum(part.nulls or 0 for part in parts)
        limits = _limits(parts, nulls.get(name) == rows)
        if limits is not None:
            least[name], greatest[name] = limits
    return {"numRecords": rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _limits(parts: list[ColumnChunk], is_null: bool) -> tuple[Any, Any] | None:
    if is_null or any(part.least is None or part.greatest is None for part in parts):
        return None
    least = min(part.least for part in parts)
    greatest = max(part.greatest for part in parts)
    low, high = _text(least, is_greatest=False), _text(greatest, is_greatest=True)
    return None if low is None or high is None else (low, high)


def _text(value: Any, *, is_greatest: bool) -> Any:
    """A limit in JSON; None: there is no safe way to write it."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= _MOST_CHARACTERS else None
    if isinstance(value, datetime):
        return _time(value, is_greatest=is_greatest)
    if isinstance(value, date):
        return value.isoformat()
    return None  # floating-point numbers have NaN, which no limit counts


def _time(value: datetime, *, is_greatest: bool) -> str | None:
    """Milliseconds, as other writers do: the least rounded down, the greatest rounded up."""
    if value.tzinfo is None:
        return None
    whole = value.astimezone(UTC).replace(microsecond=value.microsecond // 1000 * 1000)
    if is_greatest and whole != value:
        whole += _MILLISECOND
    return whole.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def text_of_partition(directory: str) -> tuple[str, str | None]:
    """The column and value in the name of a directory that Spark made for a partition."""
    name, _, value = directory.partition("=")
    return _unescaped(name), None if value == _NULL else _unescaped(value)


_NULL = "__HIVE_DEFAULT_PARTITION__"


def _unescaped(text: str) -> str:
    """Spark writes characters that a path cannot have as `%` and two hexadecimal digits."""
    parts = text.split("%")
    found = parts[0]
    for part in parts[1:]:
        code, rest = part[:2], part[2:]
        found += chr(int(code, 16)) + rest if _is_code(code) else f"%{part}"
    return found


def _is_code(code: str) -> bool:
    return len(code) == 2 and all(one in "0123456789abcdefABCDEF" for one in code)
