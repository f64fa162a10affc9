"""Artifacts: Python files, zips and wheels that jobs name."""

from datetime import datetime

from jobmanager.api.shapes.shape import Shape


class ArtifactResponse(Shape):
    id: str
    """The SHA-256 of the content."""
    name: str
    bytes: int
    modules: list[str]
    """What can be imported from the artifact."""
    uploaded_at: datetime


class ArtifactDetails(ArtifactResponse):
    names: dict[str, list[str]]
    """Top-level names of each module."""
    jobs: list[str]
    """Jobs that have not ended and use the artifact."""


class ArtifactPage(Shape):
    items: list[ArtifactResponse]
    next: str | None
