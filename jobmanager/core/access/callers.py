"""Who makes a request, and whether that is enough for a route."""

from dataclasses import dataclass
from datetime import datetime

from jobmanager.core.access.roles import Role
from jobmanager.core.access.route_rules import RouteRule
from jobmanager.core.errors import RoleTooSmall


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    """Of the token; `anonymous` for who sent none where none is needed."""
    role: Role
    origin: str | None
    """The address that the request came from."""
    token_expires_at: datetime | None = None


def refusal_of_role(caller: Caller, rule: RouteRule) -> RoleTooSmall | None:
    """Why the caller may not use the route; None: the caller may."""
    if not isinstance(rule.needs, Role) or caller.role.covers(rule.needs):
        return None
    return RoleTooSmall(
        f"{rule.what} needs the role {rule.needs}, and the token {caller.name!r} has the role "
        f"{caller.role}: ask an admin for another token "
        f"(headgate tokens create NAME --role {rule.needs})"
    )
