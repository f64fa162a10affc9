"""Updates of single rows, whose statements are made once for each set of columns.

To make a statement of expressions takes longer than to send it.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Update, bindparam, update
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.store.tables import Table, table_of


async def update_row(
    session: AsyncSession, rows: type[Table], key: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    """Set these columns of the row with this key; if there is no such row, nothing happens."""
    given = {f"key_{name}": value for name, value in key.items()}
    given |= {f"new_{name}": value for name, value in values.items()}
    await session.execute(_statement(rows, tuple(key), tuple(values)), given)


@cache
def _statement(rows: type[Table], key: tuple[str, ...], columns: tuple[str, ...]) -> Update:
    table = table_of(rows)
    return (
        update(table)
        .where(*(table.c[name] == bindparam(f"key_{name}") for name in key))
        .values({name: bindparam(f"new_{name}", type_=table.c[name].type) for name in columns})
    )
