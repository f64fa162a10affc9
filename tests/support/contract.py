"""Checks answers against the OpenAPI document."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx
import jsonschema_rs

from jobmanager.api.app import make_app

_JSON = ("application/json", "application/problem+json")
_SHAPES_OF_EVENTS = {
    "progress": "ProgressEvent",
    "progress_summary": "ProgressSummaryEvent",
    "checkpoint_triggered": "CheckpointEvent",
    "checkpoint_ack": "CheckpointEvent",
}
"""Every other event is an entry of the history."""


class BrokenContract(AssertionError):
    """An answer is not what the document says."""


async def check_answer(answer: httpx.Response) -> None:
    """For the hooks of a client: raises `BrokenContract`."""
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if kind in _JSON:
        await answer.aread()
        method, path = answer.request.method, answer.request.url.path
        check(method, path, answer.status_code, answer.content, kind)


def check(method: str, path: str, status: int, content: bytes, kind: str | None = None) -> None:
    template = template_of(method, path)
    if template is None or not content:
        return
    document = promised()
    responses = document["paths"][template][method.lower()]["responses"]
    promise = responses.get(str(status), responses["default"])
    promised_kinds = promise["content"]
    if kind is not None and kind not in promised_kinds:
        raise BrokenContract(f"{method} {template} {status}: {kind} is not promised")
    schema = promised_kinds[kind or next(iter(promised_kinds))]["schema"]
    _check(schema, json.loads(content), f"{method} {template} {status}")


def check_event(kind: str, data: Any) -> None:
    """Of the data of a server-sent event."""
    name = _SHAPES_OF_EVENTS.get(kind, "HistoryEvent")
    _check({"$ref": f"#/components/schemas/{name}"}, data, f"event {kind}")


def template_of(method: str, path: str) -> str | None:
    """The documented path that the request was for; None: there is no such path."""
    for prefix in ("", "/v1"):
        fitting: list[str] = [
            template
            for template, operations in promised()["paths"].items()
            if method.lower() in operations and _fits(template, f"{prefix}{path}")
        ]
        if fitting:
            return min(fitting, key=lambda one: one.count("{"))
    return None


def operations() -> list[tuple[str, str, Mapping[str, Any]]]:
    return [
        (method, template, operation)
        for template, found in promised()["paths"].items()
        for method, operation in found.items()
    ]


def _check(schema: Mapping[str, Any], told: Any, what: str) -> None:
    for error in _validator(json.dumps(schema)).iter_errors(told):
        where = "/".join(str(part) for part in error.instance_path)
        raise BrokenContract(f"{what}, at {where or 'the top'}: {error}")


@cache
def promised() -> dict[str, Any]:
    """The document, with every object closed: a field that is not declared is a breach here,
    though clients have to bear fields that are new.
    """
    document: dict[str, Any] = json.loads(json.dumps(make_app().openapi()))
    for schema in document["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return document


@cache
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    whole = {**json.loads(schema), "components": promised()["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def _fits(template: str, path: str) -> bool:
    parts, asked = template.split("/"), path.split("/")
    if parts[-1] == "{key}" and len(asked) > len(parts):  # the one parameter that may have slashes
        asked = [*asked[: len(parts) - 1], "/".join(asked[len(parts) - 1 :])]
    return len(parts) == len(asked) and all(
        part.startswith("{") or part == given for part, given in zip(parts, asked, strict=True)
    )
