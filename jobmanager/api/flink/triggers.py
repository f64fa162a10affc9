"""The ids by which Flink's clients name what they asked for."""

from uuid import UUID, uuid4

from jobmanager.core.errors import MalformedRequest
from jobmanager.core.ids import OperationId


def trigger_of(text: str | None) -> OperationId:
    """The client's own id, or a new one."""
    if text is None:
        return OperationId(uuid4())
    try:
        return OperationId(UUID(hex=text))
    except ValueError:
        raise MalformedRequest(f"triggerId {text!r} is not 32 hexadecimal digits") from None
