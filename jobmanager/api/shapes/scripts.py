"""The job graph of a PySpark program."""

from jobmanager.api.shapes.jobs import GraphDocument
from jobmanager.api.shapes.shape import Shape


class ScriptResponse(Shape):
    graph: GraphDocument
    """For `POST /jobs`."""
