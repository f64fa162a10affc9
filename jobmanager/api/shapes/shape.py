"""What all shapes of answers have together."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, ConfigDict, WithJsonSchema

SCHEMAS = "#/components/schemas/{model}"
Rfc3339 = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time that is kept as text in Postgres, and answered as it was kept."""


class Shape(BaseModel):
    """A JSON object in an answer. A field is there whenever the document says that it is
    required, a field with a default value too: the server always sends it.
    """

    model_config = ConfigDict(
        use_attribute_docstrings=True, json_schema_serialization_defaults_required=True
    )


def ref_of(shape: type[Shape]) -> str:
    """Where the OpenAPI document has it."""
    return SCHEMAS.format(model=shape.__name__)


class ShapeResponse(Response):
    """An answer of another shape than the usual answer of its route."""

    media_type = "application/json"

    def __init__(self, shape: Shape, status: HTTPStatus) -> None:
        super().__init__(shape.model_dump_json(by_alias=True, exclude_unset=True), status)
