"""Use cases about tokens: identify the caller of a request, create and revoke tokens."""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from jobmanager.core.access.callers import Caller
from jobmanager.core.access.roles import Role
from jobmanager.core.access.tokens import (
    ANONYMOUS,
    FIRST_ADMIN,
    RANDOM_BYTES,
    AccessToken,
    fault_of_name,
    has_form_of_a_token,
    token_hash,
    token_text,
)
from jobmanager.core.errors import InvalidToken, TokenNeeded, TokenRefused
from jobmanager.services.clock import Clock
from jobmanager.services.ports.access import Tokens

KNOWN_FOR = timedelta(seconds=1)
"""For how long a token is not looked up again. A token that another server revoked may be accepted
for that long.
"""
_MOST_KNOWN = 1000
_LOOKUPS_AT_ONCE = 4
"""So that a flood of wrong tokens does not use up the database connections."""
_WHAT_TO_DO = (
    "send a token as 'Authorization: Bearer hg_...' (for the command line set HEADGATE_TOKEN, or "
    "HEADGATE_TOKEN_COMMAND); an admin creates tokens with headgate tokens create NAME --role ROLE"
)


@dataclass(frozen=True, slots=True)
class CreatedToken:
    token: AccessToken
    text: str
    """Returned once, and stored nowhere."""


@dataclass
class AccessControl:
    """Identifies callers by their tokens, and manages tokens."""

    tokens: Tokens
    clock: Clock
    needs_tokens: bool
    random: Callable[[int], bytes] = secrets.token_bytes
    on_revoke: Callable[[], None] = lambda: None
    """Called when a token was revoked: other processes of this server may know it."""
    _known: dict[str, tuple[AccessToken, float]] = field(default_factory=dict, init=False)
    _lookups: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._lookups = asyncio.Semaphore(_LOOKUPS_AT_ONCE)

    async def caller(self, text: str | None, origin: str | None) -> Caller:
        """Identify the caller who sent this token; None: no token was sent. A token that is sent is
        checked even if the server needs none. Raises `TokenNeeded` or `TokenRefused`.
        """
        if text is None:
            if self.needs_tokens:
                raise TokenNeeded(f"this server accepts only requests with a token: {_WHAT_TO_DO}")
            return Caller(ANONYMOUS, Role.ADMIN, origin)
        found = await self._find(text)
        if found is None:
            raise TokenRefused(f"this server does not know the token: {_WHAT_TO_DO}")
        now = self.clock()
        if refusal := found.refusal(now):
            raise TokenRefused(f"{refusal}: {_WHAT_TO_DO}")
        return Caller(found.name, found.role, origin, found.expires_at)

    async def create(self, name: str, role: Role, lasts: timedelta | None) -> CreatedToken:
        """Create a token. Raises `InvalidToken` or `TokenNameTaken`."""
        if fault := fault_of_name(name):
            raise InvalidToken(fault)
        made = self._made(name, role, lasts)
        await self.tokens.add(made.token, token_hash(made.text))
        return made

    async def create_first_admin(self) -> CreatedToken | None:
        """Create an admin token if the server needs tokens and has no usable admin token; return
        None otherwise.
        """
        if not self.needs_tokens:
            return None
        made = self._made(FIRST_ADMIN, Role.ADMIN, None)
        is_first = await self.tokens.add_first_admin(made.token, token_hash(made.text))
        return made if is_first else None

    async def revoke(self, name: str) -> AccessToken:
        """Revoke a token: at once on this server, within `KNOWN_FOR` on the others."""
        revoked = await self.tokens.revoke(name, self.clock())
        self.forget()
        self.on_revoke()
        return revoked

    def forget(self) -> None:
        """Look each token up again before it is accepted."""
        self._known.clear()

    def _made(self, name: str, role: Role, lasts: timedelta | None) -> CreatedToken:
        now = self.clock()
        try:
            expires_at = None if lasts is None else now + lasts
        except OverflowError:
            raise InvalidToken("the token would expire after the year 9999: choose less") from None
        token = AccessToken(uuid4(), name, role, now, expires_at)
        return CreatedToken(token, token_text(self.random(RANDOM_BYTES)))

    async def _find(self, text: str) -> AccessToken | None:
        if not has_form_of_a_token(text):
            return None
        hashed, now = token_hash(text), self.clock()
        known, since = self._known.get(hashed, (None, 0.0))
        if known is not None and time.monotonic() - since < KNOWN_FOR.total_seconds():
            return known
        asked_at = time.monotonic()
        async with self._lookups:
            found = await self.tokens.with_hash(hashed)
            if found is not None and found.is_usable(now) and found.is_use_worth_noting(now):
                await self.tokens.note_use(found, now)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        if found is not None:
            self._known[hashed] = (found, asked_at)
        return found
