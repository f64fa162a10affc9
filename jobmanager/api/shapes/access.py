"""Who may do what: tokens, the caller, the audit."""

from datetime import datetime

from jobmanager.api.shapes.shape import Shape
from jobmanager.core.access.roles import Role


class TokenResponse(Shape):
    """A token without the token itself, which only its creation tells."""

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
    """Told once: the server keeps only its hash."""


class TokenList(Shape):
    items: list[TokenResponse]
    next: str | None


class WhoAmI(Shape):
    name: str
    """Of the token; `anonymous` without one."""
    role: Role
    covers: list[Role]
    """The roles whose rights the caller has."""
    needs_token: bool
    """Whether this server answers nobody without a token."""
    expires_at: datetime | None
    """Of the token."""


class AuditItem(Shape):
    """A request that would have changed something."""

    id: int
    at: datetime
    actor: str
    """The name of the token, or `anonymous`."""
    role: Role
    origin: str | None
    """The address that the request came from: of the client, or of its proxy."""
    method: str
    route: str
    """The route's template, without /v1."""
    subject: str | None
    """The job, savepoint, artifact or token that the request was about."""
    status: int | None
    """Of the answer. Null: the request is under way, or the server ended before its answer."""
    forwarded_by: str | None
    """The JobManager that passed the request on to the leader, as the request said."""


class AuditPage(Shape):
    items: list[AuditItem]
    next: int | None
    """The `before` of the next page; null: there is none."""
