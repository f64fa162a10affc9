"""What the API answers when it refuses a request or fails."""

from pydantic import ConfigDict, Field

from jobmanager.api.shapes.shape import Shape


class GraphFault(Shape):
    """A fault of a job graph, or of another request."""

    vertex: str | None
    """Null: the fault is not in a vertex."""
    field: str | None
    """Null: the fault is in the vertex, or the graph, as a whole."""
    message: str


class Problem(Shape):
    """Problem details of RFC 9457, as `application/problem+json`."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    type: str
    """`/problems/` and the name of the error."""
    title: str
    status: int
    detail: str
    """What is wrong, with which value, and what to do."""
    instance: str
    """The path that was asked for."""
    faults: list[GraphFault] = Field(default_factory=list)
    """All faults at once. Only where a job graph has faults, or where a request does not have the
    form that the route requires.
    """


class FlinkErrors(Shape):
    """What Flink's routes answer when they refuse a request or fail."""

    errors: list[str]
