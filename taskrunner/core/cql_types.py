"""Which columns of rows fit which columns of a Cassandra table, and how a value is given to the
driver.

Spark's types are given as Spark writes them (`array<bigint>`), and Cassandra's as its schema tables
do (`frozen<list<bigint>>`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

_TEXTS = ("text", "varchar", "ascii", "uuid", "timeuuid", "inet")
_FITS = {
    "string": _TEXTS,
    "boolean": ("boolean",),
    "tinyint": ("tinyint", "smallint", "int", "bigint", "varint"),
    "smallint": ("smallint", "int", "bigint", "varint"),
    "int": ("int", "bigint", "varint"),
    "bigint": ("bigint", "varint"),
    "float": ("float", "double"),
    "double": ("double",),
    "decimal": ("decimal",),
    "binary": ("blob",),
    "date": ("date",),
    "timestamp": ("timestamp",),
}
_INSTEAD = {
    "timestamp_ntz": "cast it to timestamp",
    "struct": "write it as text with to_json",
    "variant": "write it as text with to_json",
}


@dataclass(frozen=True, slots=True)
class CqlColumn:
    name: str
    type: str
    kind: str
    """`partition_key`, `clustering`, `regular` or `static`."""

    @property
    def is_key(self) -> bool:
        return self.kind in ("partition_key", "clustering")


def table_faults(
    table: Sequence[CqlColumn], rows: Mapping[str, str], key: Sequence[str], is_delete: bool
) -> Iterator[tuple[str, str]]:
    """Everything that keeps rows (columns with Spark's types) from being written to a table, as
    field of the sink and message. Rows that only delete need no columns but the key.
    """
    known = {one.name: one for one in table}
    primary = [one.name for one in table if one.is_key]
    if set(primary) != set(key):
        yield (
            "key",
            (
                f"the primary key of the table is ({', '.join(primary)}), and key is "
                f"({', '.join(key)}): they have to be the same columns"
            ),
        )
    for name, spark in rows.items():
        if is_delete and name not in key:
            continue
        column = known.get(name)
        if column is None:
            close = next((one for one in known if one.lower() == name.lower()), None)
            hint = f", but {close!r}, and upper and lower case differ" if close else ""
            yield "table", f"the table has no column {name!r}{hint}"
        elif column.kind == "static":
            yield "table", f"column {name!r} is static: it belongs to a partition, and not to a row"
        elif not fits(spark, column.type):
            yield "table", _unfit(name, spark, column.type)


def fits(spark: str, cql: str) -> bool:
    """Whether all values of a Spark type are values of a Cassandra type."""
    outer, inner = _parts(spark)
    target, parameters = _parts(_thawed(cql))
    if outer == "array":
        return target in ("list", "set") and fits(inner[0], parameters[0])
    if outer == "map":
        return target == "map" and all(map(fits, inner, parameters))
    return target in _FITS.get(outer.partition("(")[0], ())


def cql_value(value: Any, cql: str) -> Any:
    """A value as the driver takes it. Raises `ValueError` if a text is not what it has to be."""
    if value is None:
        return None
    target, parameters = _parts(_thawed(cql))
    match target:
        case "uuid" | "timeuuid":
            return UUID(value)
        case "list" | "set":
            return [cql_value(one, parameters[0]) for one in value]
        case "map":
            pairs = value.items() if isinstance(value, Mapping) else value
            return {cql_value(k, parameters[0]): cql_value(v, parameters[1]) for k, v in pairs}
        case _:
            return value


def _unfit(name: str, spark: str, cql: str) -> str:
    outer = _parts(spark)[0].partition("(")[0]
    if cql == "counter":
        hint = "counters cannot be written by key"
    elif outer in _INSTEAD:
        hint = f"{_INSTEAD[outer]} in a map before the sink"
    else:
        hint = "cast it in a map before the sink"
    return f"column {name!r} is {spark} in the rows and {cql} in the table: {hint}"


def _thawed(cql: str) -> str:
    inner = cql.removeprefix("frozen<")
    return inner.removesuffix(">") if inner != cql else cql


def _parts(text: str) -> tuple[str, list[str]]:
    """`map<text, list<int>>` as `map` and [`text`, `list<int>`]."""
    outer, bracket, rest = text.partition("<")
    if not bracket:
        return text.strip(), []
    parts, depth, part = [], 0, ""
    for letter in rest.removesuffix(">"):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return outer.strip(), [*parts, part.strip()]
