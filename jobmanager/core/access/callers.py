"""The caller of a request, and whether the caller's role is enough for the route."""

from dataclasses import dataclass
from datetime import datetime

from jobmanager.core.access.roles import Role
from jobmanager.core.access.route_rules import RouteRule
from jobmanager.core.errors import RoleTooSmall


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    """The name of the token; `anonymous` for a caller without a token."""
    role: Role
    origin: str | None
    """The network address that the request came from."""
    token_expires_at: datetime | None = None


def refusal_of_role(caller: Caller, rule: RouteRule) -> RoleTooSmall | None:
    """Return why the caller may not use the route; None: the caller may use it."""
    if not isinstance(rule.needs, Role) or caller.role.covers(rule.needs):
        return None
    return RoleTooSmall(
        f"{rule.what} needs the role {rule.needs}, and the token {caller.name!r} has the role "
        f"{caller.role}: ask an admin for another token "
        f"(headgate tokens create NAME --role {rule.needs})"
    )
