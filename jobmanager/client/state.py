"""The keyed state of a job or of a savepoint: one method for each route.

    for row in headgate.state(job).rows("revenue"):
        print(row["key"], row["value"])

The first call may take half a minute: the server starts a Spark session for it.
"""

from collections.abc import Iterator
from typing import Any, Protocol, cast
from urllib.parse import quote

from jobmanager.client import answers

_PATIENCE = 400.0
"""Seconds, which allow for a session that starts, a queue, or a large state."""


class Ask(Protocol):
    def __call__(self, method: str, path: str, **request: Any) -> Any: ...


class StateOf:
    def __init__(self, ask: Ask, path: str) -> None:
        self._ask = ask
        self._path = path

    def list(self) -> answers.StateList:
        """List the states, with their columns."""
        return cast(answers.StateList, self._get(""))

    def key(
        self, vertex: str, key: str, name: str = "default", **params: Any
    ) -> answers.KeyResponse:
        """Return the rows of a key: the value of the only key column, or a JSON object of key
        columns.
        """
        path = f"{_state(vertex, name)}/{quote(key, safe='')}"
        return cast(answers.KeyResponse, self._get(path, **params))

    def page(self, vertex: str, name: str = "default", **params: Any) -> answers.RowPage:
        """Return a page of rows, ordered by subtask and key; `cursor` continues after the previous
        page.
        """
        return cast(answers.RowPage, self._get(_state(vertex, name), **params))

    def rows(
        self, vertex: str, name: str = "default", **params: Any
    ) -> Iterator[answers.RowResponse]:
        """Yield all rows, page by page, all from the same checkpoint."""
        page = self.page(vertex, name, **params)
        yield from page["items"]
        while page["next"] is not None:
            page = self.page(vertex, name, **{**params, "cursor": page["next"]})
            yield from page["items"]

    def key_groups(
        self, vertex: str, name: str = "default", **params: Any
    ) -> answers.KeyGroupHistogram:
        """Return how many rows and bytes each key group has."""
        path = f"{_state(vertex, name)}/key-groups"
        return cast(answers.KeyGroupHistogram, self._get(path, **params))

    def _get(self, path: str, **params: Any) -> Any:
        given = {name: value for name, value in params.items() if value is not None}
        return self._ask("GET", f"{self._path}{path}", params=given, timeout=_PATIENCE)


def _state(vertex: str, name: str) -> str:
    return f"/{quote(vertex, safe='')}/{quote(name, safe='')}"
