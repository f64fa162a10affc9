"""The keyed state of a vertex, in a job's last checkpoint or in a savepoint.

    state = client.jobs["revenue"].keyed_state("sums")
    state.key("5")
    state.to_arrow()      # a pyarrow.Table: key columns, value columns, key_group, subtask

The first question may take half a minute: the server starts a Spark session for it.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from jobmanager.client import answers, operations
from jobmanager.client.api_call import ApiCall
from jobmanager.client.errors import HeadgateError
from jobmanager.client.flows import Flow, ask

if TYPE_CHECKING:
    import pyarrow

_PAGE = 1000


@dataclass(frozen=True)
class StateOfVertex:
    """Which state is meant."""

    owner: str
    """The id of a job or savepoint."""
    is_of_savepoint: bool
    vertex: str
    name: str = "default"
    region: str | None = None

    def page(self, limit: int, cursor: str | None) -> ApiCall[answers.RowPage]:
        if self.is_of_savepoint:
            return operations.get_savepoint_state_rows(
                self.owner,
                self.vertex,
                self.name,
                limit=limit,
                cursor=cursor,
                region=self.region,
            )
        return operations.get_job_state_rows(
            self.owner, self.vertex, self.name, limit=limit, cursor=cursor, region=self.region
        )

    def key(self, key: str) -> ApiCall[answers.KeyResponse]:
        if self.is_of_savepoint:
            return operations.get_savepoint_state_key(
                self.owner, self.vertex, self.name, key, region=self.region
            )
        return operations.get_job_state_key(
            self.owner, self.vertex, self.name, key, region=self.region
        )

    def key_groups(self) -> ApiCall[answers.KeyGroupHistogram]:
        if self.is_of_savepoint:
            return operations.get_savepoint_state_key_groups(
                self.owner, self.vertex, self.name, region=self.region
            )
        return operations.get_job_state_key_groups(
            self.owner, self.vertex, self.name, region=self.region
        )

    def states(self) -> ApiCall[answers.StateList]:
        if self.is_of_savepoint:
            return operations.get_savepoint_states(self.owner)
        return operations.get_job_states(self.owner)


def all_rows(state: StateOfVertex, most: int | None = None) -> Flow[list[answers.RowResponse]]:
    """Return all rows, or the first `most`: page by page, all from the same checkpoint."""
    found: list[answers.RowResponse] = []
    cursor: str | None = None
    while True:
        limit = _PAGE if most is None else min(_PAGE, most - len(found))
        page = yield from ask(state.page(limit, cursor))
        found += page["items"]
        cursor = page["next"]
        if cursor is None or (most is not None and len(found) >= most):
            return found


def arrow_table(state: StateOfVertex, most: int | None = None) -> Flow["pyarrow.Table"]:
    """Return the rows as an Arrow table, with the types that Spark has for the columns."""
    listed = yield from ask(state.states())
    fitting = [
        one
        for one in listed["items"]
        if (one["vertex"], one["name"]) == (state.vertex, state.name)
        and state.region in (None, one["region"])
    ]
    if not fitting:
        known = ", ".join(f"{one['vertex']}/{one['name']}" for one in listed["items"]) or "none"
        raise HeadgateError(f"there is no state {state.vertex}/{state.name} (states: {known})")
    rows = yield from all_rows(state, most)
    return table_of(fitting[0]["key"], fitting[0]["value"], rows)


def table_of(
    key: Sequence[answers.ColumnResponse],
    value: Sequence[answers.ColumnResponse],
    rows: Iterable[answers.RowResponse],
) -> "pyarrow.Table":
    """Make the table. A value column that is called like a key column gets the prefix `value_`."""
    import pyarrow

    listed = list(rows)
    arrays: dict[str, Any] = {}
    for column in key:
        arrays[column["name"]] = _array(
            column["type"], [one["key"].get(column["name"]) for one in listed]
        )
    for column in value:
        name = column["name"] if column["name"] not in arrays else f"value_{column['name']}"
        arrays[name] = _array(column["type"], [one["value"].get(column["name"]) for one in listed])
    for name in ("key_group", "subtask"):
        shown = name if name not in arrays else f"headgate_{name}"
        arrays[shown] = pyarrow.array([one[name] for one in listed], pyarrow.int32())  # type: ignore[literal-required]
    return pyarrow.table(arrays)


def _array(spark_type: str, values: list[Any]) -> Any:
    import pyarrow

    kind, read = _arrow_type(spark_type)
    if kind is None:  # a struct, array or map: as JSON text
        texts = [None if one is None else json.dumps(one, ensure_ascii=False) for one in values]
        return pyarrow.array(texts, pyarrow.string())
    return pyarrow.array([None if one is None else read(one) for one in values], kind)


def _arrow_type(spark_type: str) -> tuple[Any, Callable[[Any], Any]]:
    """Return the Arrow type of a Spark type, and how its values are read from JSON."""
    import pyarrow

    word = spark_type.strip().upper()
    simple: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "BIGINT": (pyarrow.int64(), int),
        "INT": (pyarrow.int32(), int),
        "SMALLINT": (pyarrow.int16(), int),
        "TINYINT": (pyarrow.int8(), int),
        "DOUBLE": (pyarrow.float64(), float),
        "FLOAT": (pyarrow.float32(), float),
        "BOOLEAN": (pyarrow.bool_(), bool),
        "STRING": (pyarrow.string(), str),
        "BINARY": (pyarrow.binary(), b64decode),
        "DATE": (pyarrow.date32(), date.fromisoformat),
        "TIMESTAMP": (pyarrow.timestamp("us", "UTC"), datetime.fromisoformat),
        "TIMESTAMP_NTZ": (pyarrow.timestamp("us"), datetime.fromisoformat),
    }
    if word in simple:
        return simple[word]
    decimal = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", word)
    if decimal:
        return pyarrow.decimal128(int(decimal[1]), int(decimal[2])), Decimal
    if word.startswith(("VARCHAR", "CHAR")):
        return pyarrow.string(), str
    return None, lambda value: value
