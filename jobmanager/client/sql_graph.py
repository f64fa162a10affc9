"""Translates SQL statements into a job graph.

Windows, groupings and joins become vertices of their own, so that the plan knows their state;
projections and conditions become maps and filters. A query without windows, groupings and joins
that has parts we do not translate is left to Spark as a `sql` vertex.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from jobmanager.client.builder import Environment, Stream
from jobmanager.client.sql_grouping import Grouping, grouping_of, is_aggregation
from jobmanager.client.sql_joins import JoinFields, join_fields
from jobmanager.client.sql_tables import Catalogue, SqlFault, declare, statements

_HIDDEN = "__having"
_UNSUPPORTED = {
    "order": "ORDER BY: a stream has no end, sort the rows where they are read",
    "limit": "LIMIT: a stream has no end",
    "offset": "OFFSET: a stream has no end",
    "qualify": "QUALIFY",
    "windows": "named windows",
}


class _Dialect(Spark):
    """Spark's dialect, but `window` and `session` are functions everywhere."""

    class Tokenizer(Spark.Tokenizer):
        KEYWORDS: ClassVar[dict[str, Any]] = {
            word: token
            for word, token in Spark.Tokenizer.KEYWORDS.items()
            if word not in ("WINDOW", "SESSION")
        }


def graph_of(text: str, catalogue: Catalogue) -> dict[str, Any]:
    """Return the job-graph document of the statements. Raises `SqlFault`."""
    inserts: list[exp.Insert] = []
    for statement in statements(text):
        if declare(statement, catalogue):
            continue
        parsed = _parsed(statement)
        if not isinstance(parsed, exp.Insert):
            raise SqlFault(
                f"{statement.split()[0].upper()} is not a statement of a job: CREATE TABLE, SET "
                "and INSERT INTO … SELECT are"
            )
        inserts.append(parsed)
    if not inserts:
        raise SqlFault("there is no INSERT INTO … SELECT")
    settings = {"name": "sql", **catalogue.settings}
    env = Environment(**settings)
    translation = _Translation(env, catalogue)
    for insert in inserts:
        translation.insert(insert)
    return env.graph()


@dataclass(frozen=True, slots=True)
class _Scope:
    """What table names mean inside one query."""

    prefix: str
    """The prefix of the ids of the query's vertices."""
    named: Mapping[str, exp.Expr]
    """Queries of `WITH`."""


class _Translation:
    def __init__(self, env: Environment, catalogue: Catalogue) -> None:
        self._env = env
        self._catalogue = catalogue
        self._sources: dict[str, Stream] = {}

    def insert(self, insert: exp.Insert) -> None:
        target = insert.this
        if isinstance(target, exp.Schema):
            raise SqlFault("name the columns in the SELECT with AS, and not after the table")
        if insert.args.get("overwrite"):
            raise SqlFault("INSERT OVERWRITE: a stream can only be appended, write INSERT INTO")
        name = str(target.name)
        fields = dict(self._catalogue.table(name))
        prefix = _id(name)
        stream = self._query(insert.expression, _Scope(prefix, {}))
        for field in ("schema", "watermark"):
            fields.pop(field, None)
        stream.sink(fields.pop("connector"), id=prefix, **fields)

    def _query(self, query: exp.Expr, scope: _Scope) -> Stream:
        named = dict(scope.named)
        for one in _with(query):
            named[one.alias] = one.this
        scope = replace(scope, named=named)
        if isinstance(query, exp.Subquery):
            return self._query(query.this, scope)
        if isinstance(query, exp.Union):
            return self._union(query, scope)
        if isinstance(query, exp.Select):
            return self._select(query, scope)
        raise SqlFault(f"{_sql(query)} is not a SELECT")

    def _union(self, query: exp.Union, scope: _Scope) -> Stream:
        left, right = (self._query(one, scope) for one in (query.left, query.right))
        both = left.union(right, id=f"{scope.prefix}_union")
        if not query.args.get("distinct"):
            return both
        raise SqlFault("UNION would have to remember every row of a stream: write UNION ALL")

    def _select(self, select: exp.Select, scope: _Scope) -> Stream:
        for part, why in _UNSUPPORTED.items():
            if select.args.get(part):
                raise SqlFault(f"{why} is not supported")
        if _needs_spark(select):
            return self._left_to_spark(select, scope)
        rows = self._from(select, scope)
        if condition := select.args.get("where"):
            rows = rows.filter(_sql(_plain(condition.this)), id=f"{scope.prefix}_where")
        items = [_plain(item) for item in select.expressions]
        if is_aggregation(select):
            return self._grouped(rows, select, items, scope)
        rows = _projected(rows, items, scope)
        if select.args.get("distinct"):
            names = [_name(item) for item in items]
            return rows.distinct(*names, id=f"{scope.prefix}_distinct")
        return rows

    def _from(self, select: exp.Select, scope: _Scope) -> Stream:
        origin = select.args.get("from_") or select.args.get("from")
        if origin is None:
            raise SqlFault(f"{_sql(select)} reads from no table")
        rows = self._table(origin.this, scope)
        left = origin.this.alias_or_name
        for join in select.args.get("joins") or []:
            other = self._table(join.this, scope)
            found = join_fields(join, left, join.this.alias_or_name)
            rows = _joined(rows, other, found, scope)
        return rows

    def _table(self, table: exp.Expr, scope: _Scope) -> Stream:
        if isinstance(table, exp.Subquery):
            inner = _id(table.alias) if table.alias else f"{scope.prefix}_inner"
            return self._query(table.this, replace(scope, prefix=inner))
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise SqlFault(
                f"{_sql(table)} is not a table: window functions go into GROUP BY, as "
                "window(ts, '10 seconds') or TUMBLE(ts, INTERVAL '10' SECOND)"
            )
        name = str(table.name)
        if name in scope.named:
            return self._query(scope.named[name], replace(scope, prefix=_id(name)))
        if name not in self._sources:
            self._sources[name] = self._source(name)
        return self._sources[name]

    def _source(self, name: str) -> Stream:
        fields = dict(self._catalogue.table(name))
        watermark = fields.pop("watermark", None)
        marked = (watermark["column"], watermark.get("delay", "0s")) if watermark else None
        return self._env.source(fields.pop("connector"), id=_id(name), watermark=marked, **fields)

    def _grouped(
        self,
        rows: Stream,
        select: exp.Select,
        items: Sequence[exp.Expr],
        scope: _Scope,
    ) -> Stream:
        found = grouping_of(select, items)
        if found.computed:
            rows = rows.add(id=f"{scope.prefix}_keys", **found.computed)
        results = dict(found.results)
        having = select.args.get("having")
        if having is not None:
            results[_HIDDEN] = _sql(_plain(having.this))
        rows = _aggregated(rows, found, results, f"{scope.prefix}_group")
        if having is not None:
            rows = rows.filter(_HIDDEN, id=f"{scope.prefix}_having")
        if having is None and list(found.output.items()) == [(n, n) for n in found.columns]:
            return rows
        return rows.map(id=f"{scope.prefix}_select", **found.output)

    def _left_to_spark(self, select: exp.Select, scope: _Scope) -> Stream:
        """Make a `sql` vertex of a query, which is allowed only where Spark keeps no state for
        it.
        """
        if is_aggregation(select) or select.args.get("joins") or select.args.get("distinct"):
            raise SqlFault(
                f"{_sql(select)[:80]}… groups or joins, and has LATERAL VIEW, a subquery in an "
                "expression or OVER: divide it with WITH"
            )
        origin = select.args.get("from_") or select.args.get("from")
        if origin is None:
            raise SqlFault(f"{_sql(select)} reads from no table")
        rows = self._table(origin.this, scope)
        alias = origin.this.alias_or_name
        table = exp.alias_(exp.to_table(rows.id), alias or rows.id, table=True)
        origin.this.replace(table)
        return rows.sql(_sql(select), id=f"{scope.prefix}_sql")


def _parsed(statement: str) -> exp.Expr:
    try:
        return sqlglot.parse_one(statement, read=_Dialect)
    except SqlglotError as error:
        told = re.sub(r"\x1b\[\d+m", "", " ".join(str(error).split()))
        raise SqlFault(f"this is not SQL that Headgate can read: {told}") from error


def _with(query: exp.Expr) -> Sequence[exp.CTE]:
    found = query.args.get("with_") or query.args.get("with")
    return list(found.expressions) if found is not None else []


def _needs_spark(select: exp.Select) -> bool:
    if select.args.get("laterals"):
        return True
    parts = [*select.expressions, select.args.get("where"), select.args.get("having")]
    return any(
        part is not None and part.find(exp.Subquery, exp.Exists, exp.Window, exp.Explode)
        for part in parts
    )


def _projected(rows: Stream, items: Sequence[exp.Expr], scope: _Scope) -> Stream:
    stars = [item for item in items if isinstance(item, exp.Star)]
    others = [item for item in items if not isinstance(item, exp.Star)]
    columns = {_name(item): _sql(item.unalias()) for item in others}
    if len(columns) < len(others):
        raise SqlFault("two columns have one name: give them different names with AS")
    if not stars:
        return rows.map(id=f"{scope.prefix}_select", **columns)
    return rows.add(id=f"{scope.prefix}_select", **columns) if columns else rows


def _joined(rows: Stream, other: Stream, found: JoinFields, scope: _Scope) -> Stream:
    return rows.join(
        other,
        on=list(found.on),
        type=found.type,
        within=found.within,
        id=f"{scope.prefix}_join",
    )


def _aggregated(rows: Stream, found: Grouping, results: Mapping[str, str], name: str) -> Stream:
    if found.window is None:
        return rows.key_by(*found.key).aggregate(id=name, **results)
    windowed = rows.key_by(*found.key).window(found.window, time=found.time)
    return windowed.aggregate(id=name, **results)


def _plain(item: exp.Expr) -> exp.Expr:
    """Remove table names in front of column names: a vertex has only columns."""
    copied = item.copy()
    for column in copied.find_all(exp.Column):
        if column.table and column.table != "window":
            if isinstance(column.this, exp.Star):
                raise SqlFault(f"{_sql(column)}: write *, or name the columns")
            column.set("table", None)
    return copied


def _name(item: exp.Expr) -> str:
    name = str(item.alias_or_name)
    if not name:
        raise SqlFault(f"{_sql(item)} has no column name: add AS and a name")
    return name


def _sql(item: exp.Expr) -> str:
    return item.sql(dialect="spark")


def _id(name: str) -> str:
    plain = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_") or "table"
    return plain[:40] if plain[0].isalpha() else f"t_{plain}"[:40]
