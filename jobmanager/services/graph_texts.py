"""Job graphs as text: JSON or YAML, checked so that Postgres can store them."""

import json
from collections.abc import Mapping
from typing import Any

from jobmanager.core.errors import BodyTooLarge, MalformedRequest
from jobmanager.core.json_text import unstorable
from jobmanager.protocol.graph_text import parse_yaml

MOST_YAML_BYTES = 1024 * 1024
"""YAML takes a hundred times as long to read as JSON."""


def document_in(text: bytes, what: str, *, is_yaml: bool) -> Mapping[str, Any]:
    """Read a job graph. `what` is its name in messages. It may take seconds: call it in a thread,
    since a leader has to renew its lease meanwhile. Raises `MalformedRequest`, `BodyTooLarge`.
    """
    if is_yaml and len(text) > MOST_YAML_BYTES:
        raise BodyTooLarge(
            f"a job graph as YAML may have {MOST_YAML_BYTES} bytes at most: send it as JSON"
        )
    try:
        document = parse_yaml(text) if is_yaml else json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = " ".join(str(error).split())
        language = "YAML" if is_yaml else "JSON"
        raise MalformedRequest(f"{what} is not {language}: {shown}") from error
    if not isinstance(document, dict):
        raise MalformedRequest(f"{what} is not a job graph: a mapping with name and vertices")
    try:
        # YAML has dates and numbers that JSON does not have, and Postgres stores JSON.
        plain: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False, default=str))
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedRequest(f"the job graph cannot be kept as JSON: {error}") from error
    if found := unstorable(json.dumps(plain).encode()):  # only from YAML
        raise MalformedRequest(f"the job graph contains {found}")
    return plain
