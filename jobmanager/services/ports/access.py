"""Tokens, and the audit.

Both are outside of units of work: neither depends on the lease, and the audit row of a request
stays if the request's own transaction is rolled back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobmanager.core.access.roles import Role
from jobmanager.core.access.tokens import AccessToken


class Tokens(Protocol):
    async def with_hash(self, token_hash: str) -> AccessToken | None: ...
    async def add(self, token: AccessToken, token_hash: str) -> None:
        """Raises `TokenNameTaken`."""

    async def add_first_admin(self, token: AccessToken, token_hash: str) -> bool:
        """Add the token unless a usable admin token exists; return whether it was added. If several
        servers start at the same time, only one of them adds its token.
        """

    async def all(self) -> Sequence[AccessToken]:
        """Return all tokens, the newest first, including revoked and expired tokens."""

    async def revoke(self, name: str, now: datetime) -> AccessToken:
        """Raises `TokenNotFound`."""

    async def note_use(self, token: AccessToken, now: datetime) -> None: ...
    async def prune(self, before: datetime) -> int:
        """Delete tokens that were revoked or expired before that time; return how many."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A request that would change something."""

    at: datetime
    actor: str
    """The name of the token, or `anonymous`."""
    role: Role
    origin: str | None
    method: str
    route: str
    """The path template of the route."""
    subject: str | None
    """The id of the job, savepoint or artifact, or the name of the token, to be changed."""
    status: int | None = None
    """The status of the answer. None: not known, because the request is under way or the server
    ended before it answered.
    """
    forwarded_by: str | None = None
    """The id of the JobManager that forwarded the request, as its header says."""
    id: int | None = None


class AuditLog(Protocol):
    async def begin(self, entry: AuditEntry) -> int:
        """Write a row, before the request is carried out; return its id."""

    async def end(self, entry_id: int, status: int, subject: str | None) -> None: ...
    async def before(self, before: int | None, limit: int) -> Sequence[AuditEntry]:
        """Return the entries before the given id, the newest first."""

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete old entries; return how many."""
