"""A connection to a database in which a sink writes, as far as the sink needs it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

SqlValue = str | int


class DatabaseRefused(Exception):
    """The database refused a statement or a connection; the message has its words and SQLSTATE."""


class SqlConnection(Protocol):
    """All methods raise `DatabaseRefused`. Outside of `transaction` each statement is committed at
    once.
    """

    def execute(self, statement: str, values: Sequence[SqlValue] = (), *, seconds: int = 0) -> int:
        """Runs a statement with a value for each `?`; returns how many rows it changed. `seconds`:
        how long it may take, if the database can tell; 0: as long as it takes.
        """
        ...

    def query(self, statement: str, values: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query; of many rows the first ones."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """All statements of the block are committed together, or none of them."""
        ...

    def columns(self, table: str) -> list[str]:
        """The columns of a table, as the database names them."""
        ...

    def tables(self, schema: str | None, prefix: str) -> list[str]:
        """The names of the tables that begin with `prefix`, in any case; without schema."""
        ...

    def unique_keys(self, table: str) -> list[frozenset[str]]:
        """The columns of each unique index, the primary key included."""
        ...

    def quoted(self, name: str) -> str:
        """The name of a column, so that the database takes it exactly so."""
        ...


Connect = Callable[[], AbstractContextManager[SqlConnection]]
