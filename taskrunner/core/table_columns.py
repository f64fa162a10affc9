"""Compares the columns that a job writes with the columns of an existing table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    type: str
    """As Spark writes it: `bigint`, `array<string>`, `decimal(10,2)`."""
    is_nullable: bool = True


_WIDER: Mapping[str, tuple[str, ...]] = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}
"""Types whose values all fit into another type: a sink casts them."""


def differences(rows: Sequence[TableColumn], table: Sequence[TableColumn]) -> list[str]:
    """Every reason why the rows cannot be appended to the table, in words; empty: they can.

    The order of columns does not matter. A column that only the table has is NULL in new rows.
    """
    return [*_of_rows(rows, table), *_of_table(rows, table)]


def partition_difference(
    wanted: Sequence[str], table: Sequence[str], name: str = "the table"
) -> str | None:
    """Why the table's partitioning is not what the sink names; nothing named: any will do."""
    if not wanted or list(wanted) == list(table):
        return None
    found = f"partitioned by {', '.join(table)}" if table else "not partitioned"
    return (
        f"partition_by is {', '.join(wanted)}, and {name} is {found}: "
        "leave partition_by out, or name the same columns in the same order"
    )


def _of_rows(rows: Sequence[TableColumn], table: Sequence[TableColumn]) -> Iterator[str]:
    known = {one.name: one for one in table}
    alike = {one.name.lower(): one.name for one in table}
    for column in rows:
        there = known.get(column.name)
        if there is None:
            other = alike.get(column.name.lower())
            hint = (
                f"the table has {other!r}: write the name in the same way"
                if other is not None
                else "add it to the table, or drop it in a map before the sink"
            )
            yield f"column {column.name!r} ({column.type}) is not in the table: {hint}"
        elif not fits(column.type, there.type):
            yield (
                f"column {column.name!r} is {column.type} in the job and {there.type} in the "
                f"table: cast it in a map before the sink"
            )
        elif column.is_nullable and not there.is_nullable:
            yield (
                f"column {column.name!r} may be NULL in the job and not in the table: use "
                "coalesce in a map before the sink"
            )


def _of_table(rows: Sequence[TableColumn], table: Sequence[TableColumn]) -> Iterator[str]:
    written = {one.name.lower() for one in rows}
    for column in table:
        if column.name.lower() not in written and not column.is_nullable:
            yield (
                f"column {column.name!r} ({column.type}) of the table must not be NULL, and the "
                "job does not write it: add it in a map before the sink"
            )


def fits(written: str, stored: str) -> bool:
    """Whether values of a type can be stored in a column, if necessary after a cast that loses
    nothing.
    """
    return written == stored or stored in _WIDER.get(written, ())
