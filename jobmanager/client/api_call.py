"""One request to the server as a value, and methods made of functions that return such values.

`operations` has a function for each operation of the OpenAPI document. A function only describes
its request, so that the same function serves `Client`, which waits for the answer, and
`AsyncClient`, which awaits it:

    class Operations:
        get_job_status = Method(get_job_status)        # client.get_job_status(job_id)

    class AsyncOperations:
        get_job_status = AsyncMethod(get_job_status)   # await client.get_job_status(job_id)
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload
from urllib.parse import quote
from uuid import uuid4

Answer = TypeVar("Answer")
Given = ParamSpec("Given")


class AnswerForm(StrEnum):
    JSON = "json"
    TEXT = "text"
    BYTES = "bytes"
    EVENTS = "events"
    """Server-sent events: the answer goes on until somebody stops it."""


@dataclass(frozen=True, kw_only=True)
class ApiCall(Generic[Answer]):
    """One request. `Answer` is the type of what the server answers."""

    method: str
    path: str
    params: Mapping[str, str | list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    files: Mapping[str, tuple[str, bytes]] | None = None
    form: AnswerForm = AnswerForm.JSON
    is_repeatable: bool = False
    """Whether the request may be sent again if it is not known whether it arrived: a read, or a
    write that carries an id of its own, by which the server recognises the repetition.
    """
    timeout: float | None = None
    """Seconds; None: the client's own."""


class RunsCalls(Protocol):
    def run(self, call: ApiCall[Answer]) -> Answer: ...


class AwaitsCalls(Protocol):
    async def run(self, call: ApiCall[Answer]) -> Answer: ...


class Method(Generic[Given, Answer]):
    """A method that sends the request and returns the answer."""

    def __init__(self, make: Callable[Given, ApiCall[Answer]]) -> None:
        self._make = make
        describe(self, make)

    @overload
    def __get__(self, client: None, owner: type) -> "Method[Given, Answer]": ...

    @overload
    def __get__(self, client: RunsCalls, owner: type) -> Callable[Given, Answer]: ...

    def __get__(
        self, client: RunsCalls | None, owner: type
    ) -> "Method[Given, Answer] | Callable[Given, Answer]":
        if client is None:
            return self
        runner = client

        def called(*given: Given.args, **named: Given.kwargs) -> Answer:
            return runner.run(self._make(*given, **named))

        return update_wrapper(called, self._make)


class AsyncMethod(Generic[Given, Answer]):
    """A method that sends the request, and whose answer is awaited."""

    def __init__(self, make: Callable[Given, ApiCall[Answer]]) -> None:
        self._make = make
        describe(self, make)

    @overload
    def __get__(self, client: None, owner: type) -> "AsyncMethod[Given, Answer]": ...

    @overload
    def __get__(self, client: AwaitsCalls, owner: type) -> Callable[Given, Awaitable[Answer]]: ...

    def __get__(
        self, client: AwaitsCalls | None, owner: type
    ) -> "AsyncMethod[Given, Answer] | Callable[Given, Awaitable[Answer]]":
        if client is None:
            return self
        runner = client

        def called(*given: Given.args, **named: Given.kwargs) -> Awaitable[Answer]:
            return runner.run(self._make(*given, **named))

        return update_wrapper(called, self._make)


def like(
    function: Callable[Given, Any],
) -> Callable[[Callable[..., Answer]], Callable[Concatenate[Any, Given], Answer]]:
    """Give a method the parameters of a function."""

    def changed(method: Callable[..., Answer]) -> Callable[Concatenate[Any, Given], Answer]:
        signature = inspect.signature(function)
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        shown = signature.replace(
            parameters=[own, *signature.parameters.values()],
            return_annotation=inspect.signature(method).return_annotation,
        )
        method.__signature__ = shown  # type: ignore[attr-defined]
        return method

    return changed


def describe(method: object, function: Callable[..., Any], skip: int = 0) -> None:
    """Let `help` show of the method what the function's author wrote. The first `skip` parameters
    are not the caller's.
    """
    method.__doc__ = function.__doc__
    signature = inspect.signature(function)
    shown = list(signature.parameters.values())[skip:]
    method.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]


# ── for the functions in `operations` ─────────────────────────────────────────


def part(text: object) -> str:
    """Return a text as one part of a path."""
    return quote(str(text), safe="")


def texts(params: Mapping[str, object]) -> dict[str, Any]:
    """Return the parameters or headers that were given, as they are sent; a list is sent as one
    parameter for each of its values.
    """
    return {
        name: [_text(one) for one in value] if isinstance(value, list | tuple) else _text(value)
        for name, value in params.items()
        if value is not None
    }


def given(fields: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of a body that were given."""
    return {name: value for name, value in fields.items() if value is not None}


def own_id(chosen: str | None) -> str:
    """Return the caller's id of a request, or a new id: sent again, the request has the same."""
    return chosen or uuid4().hex


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
