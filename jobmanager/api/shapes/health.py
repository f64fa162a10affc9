"""Whether a JobManager is alive, and able to serve."""

from datetime import datetime

from jobmanager.api.shapes.shape import Shape


class Alive(Shape):
    status: str


class Ready(Shape):
    status: str
    leader: bool
    """Whether this JobManager leads."""
    leader_url: str | None
    """Null while no JobManager leads: then only reads are served."""
    term: int | None
    """The term in which this JobManager leads; null: it does not lead."""
    started_at: datetime
