"""The OpenAPI document: what every route takes and answers, generated from the shapes.

    python -m jobmanager.api.openapi    writes the document to the standard output

The same code gives the same document, to the byte: the dashboard's types are generated from
the document, and `make lint` checks that they are up to date.
"""

import asyncio
import json
import sys
from threading import Lock
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from jobmanager.api.conditional_reads import is_conditional
from jobmanager.api.shapes.events import EVENT_DATA
from jobmanager.api.shapes.problems import FlinkErrors, Problem
from jobmanager.api.shapes.shape import SCHEMAS, Shape
from jobmanager.core.access.roles import Role
from jobmanager.core.access.route_rules import NoRole, RouteRule, rule_for

_making = Lock()
"""Held while a document is made: until it is complete, nobody gets it."""


def install(app: FastAPI) -> None:
    """Serve the document. It is made on the first request, which takes a second or more: not in the
    event loop, where everything else would wait, and a leader might lose its lease.
    """
    app.openapi = lambda: document_of(app)  # type: ignore[method-assign]
    path = app.openapi_url
    assert path is not None

    async def answer(_: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(app.openapi))

    others = [one for one in app.router.routes if getattr(one, "path", None) != path]
    app.router.routes[:] = others
    app.add_route(path, answer, include_in_schema=False)


def document_of(app: FastAPI) -> dict[str, Any]:
    """Return the document of an application, which is made once. Any thread may call it."""
    with _making:
        return _document_of(app)


def _document_of(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        schemas = document["components"]["schemas"]
        # No route returns a problem or the data of an event: FastAPI does not know their shapes.
        known_to_us: list[tuple[type[Shape], JsonSchemaMode]] = [
            (shape, "serialization") for shape in (Problem, FlinkErrors, *EVENT_DATA)
        ]
        _, defined = models_json_schema(known_to_us, ref_template=SCHEMAS)
        document["components"]["schemas"] = dict(sorted((defined["$defs"] | schemas).items()))
        _leave_out_titles(document["components"]["schemas"])
        _say_who_may(document)
    assert app.openapi_schema is not None
    return app.openapi_schema


def _leave_out_titles(schemas: dict[str, Any]) -> None:
    """Remove the titles that pydantic makes of field names: they only repeat the names."""
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            field.pop("title", None)


def _say_who_may(document: dict[str, Any]) -> None:
    """Declare which operations need a token, and which role."""
    document["components"]["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token of `headgate tokens create`: hg_… Not needed on loopback, "
            "unless the server was started with --require-tokens.",
        },
        "runner": {
            "type": "http",
            "scheme": "bearer",
            "description": "The token that a runner was launched with.",
        },
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            found = rule_for(method.upper(), path)
            assert found is not None, f"{method} {path} is not in the table of rules"
            needs = found[0].needs
            _say_what_is_conditional(found[0], operation)
            if isinstance(needs, Role):
                operation["security"] = [{"token": []}, {}]
                operation["x-headgate-role"] = needs.value
            else:
                operation["security"] = [{"runner": []}] if needs is NoRole.RUNNER else []


def _say_what_is_conditional(rule: RouteRule, operation: dict[str, Any]) -> None:
    answer = operation["responses"].get("200", {})
    if is_conditional(rule) and "application/json" in answer.get("content", {}):
        tag = {"schema": {"type": "string"}, "description": "Names this answer."}
        answer["headers"] = {"ETag": tag, **answer.get("headers", {})}
        operation["responses"]["304"] = {
            "description": "The client has the answer: its `If-None-Match` names the `ETag`"
        }


def _main() -> None:
    from jobmanager.api.app import make_app

    json.dump(make_app().openapi(), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    _main()
