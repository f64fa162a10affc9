"""The client takes answers to be what the API says they are."""

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from jobmanager.api.app import make_app
from jobmanager.api.client_types import ANSWERS, text
from jobmanager.client import answers
from jobmanager.client.client import HeadgateClient
from jobmanager.client.state import StateOf


@cache
def _document() -> dict[str, Any]:
    return make_app().openapi()


def test_the_types_of_answers_are_those_of_the_document() -> None:
    generated = text(_document())

    assert ANSWERS.read_text() == generated, "the shapes have changed: run `make types`"


@pytest.mark.parametrize(
    ("shape", "field", "expected"),
    [
        ("CheckpointResponse", "batch", dict[str, int | None]),
        ("CheckpointResponse", "acks", list[answers.AckResponse]),
        ("CheckpointResponse", "failure", answers.CheckpointFailure | None),
        ("GraphResponse", "graph", dict[str, Any]),
        ("StatusResponse", "lag", int | None),
        ("StatusResponse", "desired", answers.Desired),
    ],
)
def test_a_field_has_the_type_that_its_shape_has(shape: str, field: str, expected: Any) -> None:
    assert get_type_hints(getattr(answers, shape))[field] == expected


def test_a_field_that_is_left_out_at_times_is_not_required() -> None:
    assert "failure_message" in answers.CheckpointLine.__optional_keys__
    assert "failure" in answers.CheckpointResponse.__required_keys__


def test_methods_that_answer_with_an_object_say_which() -> None:
    """No method may fall back to a mapping of anything, but for a job graph."""
    untyped = [
        name
        for owner in (HeadgateClient, StateOf)
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_") and _is_untyped(get_type_hints(method).get("return"))
    ]

    assert untyped == ["describe_script"]


class _Recording(HeadgateClient):
    """Asks nobody, and remembers what it would have asked."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.asked: list[tuple[str, str]] = []

    def _ask(self, method: str, path: str, **request: Any) -> Any:
        self.asked.append((method.lower(), f"/v1{path}"))
        return {"items": [], "jobs": [], "next": None}


def _methods() -> list[tuple[str, bool]]:
    """Those that answer with a shape, or a list of shapes; True: of the state of a job."""
    return [
        (name, owner is StateOf)
        for owner in (HeadgateClient, StateOf)
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_") and _shape(get_type_hints(method).get("return")) is not None
    ]


def _shape(returned: Any) -> Any:
    one = get_args(returned)[0] if get_origin(returned) in (list, Iterator) else returned
    return one if is_typeddict(one) else None


@pytest.mark.parametrize(("name", "is_about_state"), _methods())
def test_a_method_answers_with_the_shape_of_its_route(name: str, is_about_state: bool) -> None:
    with _Recording() as client:
        method = getattr(client.state(_EXAMPLES["job_id"]) if is_about_state else client, name)
        needed = [
            parameter.name
            for parameter in inspect.signature(method).parameters.values()
            if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        ]
        found = method(*(_EXAMPLES[one] for one in needed))
        if isinstance(found, Iterator):
            next(found, None)

    [asked] = client.asked
    returned = get_type_hints(method)["return"]
    assert _shape(returned) in _answers_of(*asked, in_a_list=returned is not _shape(returned))


_EXAMPLES: dict[str, Any] = {
    "role": "viewer",
    "job_id": "a" * 32,
    "savepoint_id": "a" * 32,
    "operation_id": "a" * 32,
    "artifact_id": "a" * 64,
    "number": 1,
    "graph": {},
    "labels": {},
    "name": "functions.py",
    "content": b"",
    "path": "/checkpoints",
    "vertex": "revenue",
    "key": "5",
    "url": "https://hooks.example.com/x",
    "on": ["restart"],
}


def _answers_of(method: str, path: str, *, in_a_list: bool) -> list[Any]:
    """The client's types of what the route answers where it succeeds."""
    document = _document()
    fitting = [
        template
        for template, operations in document["paths"].items()
        if method in operations and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
    ]
    operation = document["paths"][min(fitting, key=lambda one: one.count("{"))][method]
    shapes = [
        response["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for status, response in operation["responses"].items()
        if status.startswith("2")
    ]
    named = [getattr(answers, one) for one in shapes]
    found = [kind for one in named for kind in (get_args(one) or (one,))]
    if in_a_list:
        return [
            _shape(hint) for one in found for hint in get_type_hints(one).values() if _shape(hint)
        ]
    return found


def _is_untyped(returned: Any) -> bool:
    inner = [one for one in get_args(returned) if one is not type(None)]
    if get_origin(returned) is dict or returned is Any:
        return True
    return any(_is_untyped(one) for one in inner if not is_typeddict(one))
