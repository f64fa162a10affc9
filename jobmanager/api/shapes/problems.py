"""What the API answers where it refuses or fails."""

from pydantic import ConfigDict, Field

from jobmanager.api.shapes.shape import Shape


class GraphFault(Shape):
    """One thing that is wrong with a job graph, or with another request."""

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
    """Every fault at once. Only of a job graph with faults, and of a request that does not have
    the form that the route asks for."""


class FlinkErrors(Shape):
    """What Flink's routes answer where they refuse or fail."""

    errors: list[str]
