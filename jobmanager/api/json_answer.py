"""An answer that is written as it is, for the reads that are asked most often.

FastAPI would check the content against the shape of the route first, which takes as long as to
read it from Postgres. Tests check all answers against the OpenAPI document instead
(`tests/support/contract.py`).
"""

from http import HTTPStatus
from typing import Any

from fastapi import Response
from pydantic_core import to_json


class JsonAnswer(Response):
    """The content is a shape, or what JSON is made of."""

    media_type = "application/json"

    def __init__(self, content: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        super().__init__(to_json(content, by_alias=True, inf_nan_mode="null"), status)
