"""Reads what a query with GROUP BY, or with aggregates only, groups by and computes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from jobmanager.client.sql_tables import SqlFault
from jobmanager.core.durations import render
from jobmanager.core.graph.spark_interval import NotAnInterval, interval_of

_SPARK_WINDOWS = ("WINDOW", "SESSION_WINDOW")
_STARTS = ("TUMBLE_START", "HOP_START", "SESSION_START")
_ENDS = ("TUMBLE_END", "HOP_END", "SESSION_END")
_WINDOWS = (*_SPARK_WINDOWS, "TUMBLE", "HOP", "SESSION")
_BOTH = "named_struct('start', window_start, 'end', window_end)"


@dataclass
class Grouping:
    key: list[str] = field(default_factory=list)
    computed: dict[str, str] = field(default_factory=dict)
    """Keys that are expressions, by column name."""
    window: Mapping[str, Any] | None = None
    time: str | None = None
    results: dict[str, str] = field(default_factory=dict)
    output: dict[str, str] = field(default_factory=dict)
    """The columns of the SELECT, as expressions over the columns of the vertex."""

    @property
    def columns(self) -> list[str]:
        """Return the columns that the vertex itself emits."""
        window = ["window_start", "window_end"] if self.window is not None else []
        return [*self.key, *window, *self.results]


def is_aggregation(select: exp.Select) -> bool:
    if select.args.get("group") or select.args.get("having"):
        return True
    return any(item.find(exp.AggFunc) is not None for item in select.expressions)


def grouping_of(select: exp.Select, items: Sequence[exp.Expr]) -> Grouping:
    """Read the grouping. `items` are the SELECT's columns without table names. Raises
    `SqlFault`.
    """
    group = select.args.get("group")
    if group is not None and any(
        group.args.get(one) for one in ("rollup", "cube", "grouping_sets")
    ):
        raise SqlFault("ROLLUP, CUBE and GROUPING SETS are not supported: write one GROUP BY each")
    found = Grouping()
    by_name = {item.alias: item.this for item in items if isinstance(item, exp.Alias)}
    keys: dict[str, str] = {}
    for one in group.expressions if group is not None else ():
        _take(_resolved(one, items, by_name), found, keys, items)
    for item in items:
        _output(item, found, keys)
    if not found.results:
        # a GROUP BY without aggregates is the keys themselves
        found.results["__rows"] = "count(*)"
    return found


def _resolved(
    one: exp.Expr, items: Sequence[exp.Expr], by_name: Mapping[str, exp.Expr]
) -> exp.Expr:
    """Return the expression that `GROUP BY 1` or `GROUP BY alias` refers to."""
    plain = one.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
    if isinstance(plain, exp.Literal) and plain.is_int:
        position = int(plain.this)
        if not 1 <= position <= len(items):
            raise SqlFault(f"GROUP BY {position}: the SELECT has {len(items)} columns")
        return items[position - 1].unalias()
    if isinstance(plain, exp.Column) and plain.name in by_name:
        return by_name[plain.name]
    return plain


def _take(one: exp.Expr, found: Grouping, keys: dict[str, str], items: Sequence[exp.Expr]) -> None:
    if function := _window_function(one):
        if found.window is not None:
            raise SqlFault("GROUP BY can have only one window")
        found.window, found.time = _window(function, one)
        return
    if isinstance(one, exp.Column):
        found.key.append(one.name)
        keys[_sql(one)] = one.name
        return
    named = [item.alias for item in items if isinstance(item, exp.Alias) and item.this == one]
    if not named:
        raise SqlFault(f"GROUP BY {_sql(one)}: name it in the SELECT with AS")
    found.computed[named[0]] = _sql(one)
    found.key.append(named[0])
    keys[_sql(one)] = named[0]


def _output(item: exp.Expr, found: Grouping, keys: Mapping[str, str]) -> None:
    if isinstance(item, exp.Star):
        raise SqlFault("SELECT * with GROUP BY: name the columns")
    inner, name = item.unalias(), str(item.alias_or_name)
    if (accessor := _accessor(inner)) is not None:
        if found.window is None:
            raise SqlFault(f"{_sql(inner)}: there is no window in GROUP BY")
        found.output[name or accessor[0]] = accessor[1]
        return
    if not name:
        raise SqlFault(f"{_sql(inner)} has no column name: add AS and a name")
    if _sql(inner) in keys:
        found.output[name] = _quoted(keys[_sql(inner)])
        return
    if inner.find(exp.AggFunc) is None and not inner.find(exp.Anonymous, exp.Literal):
        raise SqlFault(f"{_sql(inner)} is neither in GROUP BY nor an aggregate")
    if name in found.output:
        raise SqlFault(f"two columns are called {name!r}: give them different names with AS")
    found.results[name] = _sql(inner)
    found.output[name] = _quoted(name)


def _accessor(item: exp.Expr) -> tuple[str, str] | None:
    """Return the name and expression of a column that refers to the window itself."""
    if isinstance(item, exp.Column):
        plain = f"{item.table}.{item.name}" if item.table else item.name
        return {
            "window.start": ("start", "window_start"),
            "window.end": ("end", "window_end"),
            "window_start": ("window_start", "window_start"),
            "window_end": ("window_end", "window_end"),
            "window": ("window", _BOTH),
            "session_window": ("session_window", _BOTH),
        }.get(plain.lower())
    if isinstance(item, exp.Dot) and _window_function(item.this):
        part = str(item.expression.name).lower()
        return (part, f"window_{part}") if part in ("start", "end") else None
    if isinstance(item, exp.Anonymous):
        name = str(item.this).upper()
        if name in _STARTS:
            return "window_start", "window_start"
        if name in _ENDS:
            return "window_end", "window_end"
    return ("window", _BOTH) if _window_function(item) else None


def _window_function(item: Any) -> str | None:
    if isinstance(item, exp.Anonymous) and str(item.this).upper() in _WINDOWS:
        return str(item.this).upper()
    return None


def _window(function: str, item: exp.Expr) -> tuple[Mapping[str, Any], str]:
    arguments = list(item.expressions)
    sizes = [_duration(one) for one in arguments[1:]]
    if not arguments or not isinstance(arguments[0], exp.Column) or not sizes:
        raise SqlFault(f"{_sql(item)}: a window has a time column and a length")
    time = str(arguments[0].name)
    match function, sizes:
        case ("WINDOW", [size]) | ("TUMBLE", [size]):
            return {"tumbling": size}, time
        case ("WINDOW", [size, every]) | ("HOP", [every, size]):
            return {"sliding": size, "every": every}, time
        case ("SESSION_WINDOW", [gap]) | ("SESSION", [gap]):
            return {"session": gap}, time
    raise SqlFault(f"{_sql(item)}: so many lengths are not supported")


def _duration(item: exp.Expr) -> str:
    if isinstance(item, exp.Interval):
        text = f"{item.this.name} {item.unit.name if item.unit is not None else ''}"
    else:
        text = str(item.name)
    try:
        return render(interval_of(text))
    except NotAnInterval as error:
        raise SqlFault(str(error)) from error


def _sql(item: exp.Expr) -> str:
    return item.sql(dialect="spark")


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
