"""Shapes of tokens, of the caller and of the audit."""

from datetime import datetime

from jobmanager.api.shapes.shape import Shape
from jobmanager.core.access.roles import Role


class TokenResponse(Shape):
    """A token without its secret text, which only the answer to its creation contains."""

    name: str
    role: Role
    created_at: datetime
    expires_at: datetime | None
    """Null: never."""
    revoked_at: datetime | None
    last_used_at: datetime | None
    """Exact to a minute."""
    is_usable: bool
    """Neither revoked nor expired."""


class NewTokenResponse(TokenResponse):
    token: str
    """The secret text. The server stores only its hash, so no other answer contains it."""


class TokenList(Shape):
    items: list[TokenResponse]
    next: str | None


class WhoAmI(Shape):
    name: str
    """The name of the token; `anonymous` for a caller without a token."""
    role: Role
    covers: list[Role]
    """The roles whose rights the caller has."""
    needs_token: bool
    """Whether this server accepts only requests with a token."""
    expires_at: datetime | None
    """When the token expires; null: never, or no token was sent."""


class AuditItem(Shape):
    """A request that would have changed something."""

    id: int
    at: datetime
    actor: str
    """The name of the token, or `anonymous`."""
    role: Role
    origin: str | None
    """The address that the request came from: that of the client, or of a proxy."""
    method: str
    route: str
    """The path template of the route, without /v1."""
    subject: str | None
    """The id of the job, savepoint or artifact, or the name of the token, to be changed."""
    status: int | None
    """The status of the answer. Null: the request is under way, or the server ended before it
    answered.
    """
    forwarded_by: str | None
    """The id of the JobManager that forwarded the request to the leader, as its header says."""


class AuditPage(Shape):
    items: list[AuditItem]
    next: int | None
    """The `before` of the next page; null: this is the last page."""
