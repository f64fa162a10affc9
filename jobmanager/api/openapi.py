"""The OpenAPI document: what every route takes and answers, generated from the shapes.

    python -m jobmanager.api.openapi    writes the document to the standard output

The same code gives the same document, to the byte: the dashboard's types are generated from
the document, and `make lint` checks that they are up to date.
"""

import json
import sys
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from jobmanager.api.shapes.events import EVENT_DATA
from jobmanager.api.shapes.problems import Problem
from jobmanager.api.shapes.shape import SCHEMAS, Shape


def document_of(app: FastAPI) -> dict[str, Any]:
    """Return the document of an application, which is made once."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        schemas = document["components"]["schemas"]
        # No route returns a problem or the data of an event: FastAPI does not know their shapes.
        known_to_us: list[tuple[type[Shape], JsonSchemaMode]] = [
            (shape, "serialization") for shape in (Problem, *EVENT_DATA)
        ]
        _, defined = models_json_schema(known_to_us, ref_template=SCHEMAS)
        document["components"]["schemas"] = dict(sorted((defined["$defs"] | schemas).items()))
        _leave_out_titles(document["components"]["schemas"])
    assert app.openapi_schema is not None
    return app.openapi_schema


def _leave_out_titles(schemas: dict[str, Any]) -> None:
    """Remove the titles that pydantic makes of field names: they only repeat the names."""
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            field.pop("title", None)


def _main() -> None:
    from jobmanager.api.app import make_app

    json.dump(make_app().openapi(), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    _main()
