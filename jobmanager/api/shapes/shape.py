"""What all shapes of answers have in common."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, ConfigDict, WithJsonSchema

SCHEMAS = "#/components/schemas/{model}"
Rfc3339 = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time that is stored as text in Postgres, and answered as it was stored."""


class Shape(BaseModel):
    """A JSON object in an answer. The server always sends every required field, including fields
    with a default value.
    """

    model_config = ConfigDict(
        use_attribute_docstrings=True, json_schema_serialization_defaults_required=True
    )


def ref_of(shape: type[Shape]) -> str:
    """Return the reference to a shape in the OpenAPI document."""
    return SCHEMAS.format(model=shape.__name__)


class ShapeResponse(Response):
    """An answer whose shape differs from the usual answer of its route."""

    media_type = "application/json"

    def __init__(self, shape: Shape, status: HTTPStatus) -> None:
        super().__init__(shape.model_dump_json(by_alias=True, exclude_unset=True), status)
