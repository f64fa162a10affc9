"""Trigger ids, with which Flink's clients refer to operations they asked for."""

from uuid import UUID, uuid4

from jobmanager.core.errors import MalformedRequest
from jobmanager.core.ids import OperationId


def trigger_of(text: str | None) -> OperationId:
    """Return the client's own id, or a new id where it gave none."""
    if text is None:
        return OperationId(uuid4())
    try:
        return OperationId(UUID(hex=text))
    except ValueError:
        raise MalformedRequest(f"triggerId {text!r} is not 32 hexadecimal digits") from None
