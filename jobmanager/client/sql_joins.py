"""Translates a JOIN of two tables into the fields of a `join` vertex."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from jobmanager.client.sql_tables import SqlFault
from jobmanager.core.durations import render
from jobmanager.core.graph.spark_interval import NotAnInterval, interval_of


@dataclass(frozen=True, slots=True)
class JoinFields:
    type: str
    on: tuple[str, ...]
    within: str | None


def join_fields(join: exp.Join, left: str, right: str) -> JoinFields:
    """Return the fields of the vertex. `left` and `right` are table names or aliases. Raises
    `SqlFault`.
    """
    kind = _type(join)
    if using := join.args.get("using"):
        return JoinFields(kind, tuple(one.name for one in using), None)
    condition = join.args.get("on")
    if condition is None:
        raise SqlFault(f"{_sql(join)}: a join needs ON or USING")
    on: list[str] = []
    within: str | None = None
    for part in _conjuncts(condition):
        if isinstance(part, exp.EQ):
            on.append(_same_column(part))
        elif isinstance(part, exp.Between):
            within = _within(part)
        else:
            raise SqlFault(
                f"{_sql(part)}: a join is on equal columns, and on times as in "
                f"{left}.ts BETWEEN {right}.ts - INTERVAL '1' MINUTE AND {right}.ts + INTERVAL "
                "'1' MINUTE; put other conditions into WHERE"
            )
    if not on:
        raise SqlFault(f"{_sql(join)}: no column is equal on both sides")
    return JoinFields(kind, tuple(on), within)


def _type(join: exp.Join) -> str:
    side, kind = str(join.side or "").lower(), str(join.kind or "").lower()
    if kind in ("semi", "anti"):
        return f"left_{kind}"
    if kind == "cross" or join.args.get("method"):
        raise SqlFault(f"{_sql(join)}: CROSS and NATURAL joins are not supported")
    return side or "inner"


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.Paren):
        yield from _conjuncts(condition.this)
    elif isinstance(condition, exp.And):
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    else:
        yield condition


def _same_column(part: exp.EQ) -> str:
    sides = (part.left, part.right)
    if not all(isinstance(one, exp.Column) for one in sides):
        raise SqlFault(f"{_sql(part)}: both sides have to be columns")
    if part.left.name != part.right.name:
        raise SqlFault(
            f"{_sql(part)}: give the columns one name first, as in (SELECT {part.right.name} AS "
            f"{part.left.name}, … FROM …)"
        )
    return str(part.left.name)


def _within(part: exp.Between) -> str:
    low, high = part.args["low"], part.args["high"]
    below = low.expression if isinstance(low, exp.Sub) else None
    above = high.expression if isinstance(high, exp.Add) else None
    if below is None or above is None or _length(below) != _length(above):
        raise SqlFault(
            f"{_sql(part)}: the time may differ by as much in both directions: ts BETWEEN other "
            "- INTERVAL '1' MINUTE AND other + INTERVAL '1' MINUTE"
        )
    return _length(below)


def _length(item: exp.Expr) -> str:
    if not isinstance(item, exp.Interval):
        raise SqlFault(f"{_sql(item)} is not an INTERVAL")
    unit = item.unit.name if item.unit is not None else ""
    try:
        return render(interval_of(f"{item.this.name} {unit}"))
    except NotAnInterval as error:
        raise SqlFault(str(error)) from error


def _sql(item: exp.Expr) -> str:
    return item.sql(dialect="spark")
