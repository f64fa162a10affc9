"""Tokens, and the audit of what was done with them.

Both are outside of units of work: neither depends on who leads, and a refusal is written down
though nothing else is.
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
        """Adds the token unless a usable one of an admin is there; whether it did. Of several
        servers that start at the same time one does.
        """

    async def all(self) -> Sequence[AccessToken]:
        """The newest first, also those that are revoked or expired."""

    async def revoke(self, name: str, now: datetime) -> AccessToken:
        """Raises `TokenNotFound`."""

    async def note_use(self, token: AccessToken, now: datetime) -> None: ...
    async def prune(self, before: datetime) -> int:
        """Forgets those that were revoked or expired before that; how many."""


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
    """The template of the route."""
    subject: str | None
    """What it was about: the id of a job, savepoint or artifact, the name of a token."""
    status: int | None = None
    """Of the answer. None: not known, the request was under way when the server ended."""
    forwarded_by: str | None = None
    """The JobManager that passed the request on, as the request says."""
    id: int | None = None


class AuditLog(Protocol):
    async def begin(self, entry: AuditEntry) -> int:
        """Written before the request is carried out, or refused; the id."""

    async def end(self, entry_id: int, status: int, subject: str | None) -> None: ...
    async def before(self, before: int | None, limit: int) -> Sequence[AuditEntry]:
        """The newest first."""

    async def prune(self, before: datetime, limit: int) -> int:
        """Forgets old entries; how many."""
