"""Tokens, by which clients prove who they are. Only the SHA-256 of a token is stored.

A token has 32 random bytes and cannot be guessed, so a fast hash is enough.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from jobmanager.core.access.roles import Role

RANDOM_BYTES = 32
_PREFIX = "hg_"
_TOKEN = re.compile(r"hg_[A-Za-z0-9_-]{43}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_USE_NOTED_EVERY = timedelta(minutes=1)
FIRST_ADMIN = "first-admin"
"""The name of the token that a server creates when it starts without an admin token."""
ANONYMOUS = "anonymous"
"""The name of a caller without a token, on a server that needs none."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token without its secret text."""

    id: UUID
    name: str
    """No two tokens that are not revoked share a name."""
    role: Role
    created_at: datetime
    expires_at: datetime | None = None
    """None: never."""
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def is_usable(self, now: datetime) -> bool:
        return self.refusal(now) is None

    def refusal(self, now: datetime) -> str | None:
        """Return why the token is not accepted; None: it is usable."""
        if self.revoked_at is not None:
            return f"the token {self.name!r} was revoked at {_shown(self.revoked_at)}"
        if self.expires_at is not None and self.expires_at <= now:
            return f"the token {self.name!r} expired at {_shown(self.expires_at)}"
        return None

    def is_use_worth_noting(self, now: datetime) -> bool:
        """Return whether to write `last_used_at`, which is exact to a minute: a write for every
        request would be too many.
        """
        return self.last_used_at is None or now - self.last_used_at >= _USE_NOTED_EVERY


def token_text(random: bytes) -> str:
    """Return the text of a token that consists of these random bytes."""
    return _PREFIX + base64.urlsafe_b64encode(random).decode("ascii").rstrip("=")


def has_form_of_a_token(text: str) -> bool:
    """Return whether the text can be a token at all; if not, the database need not be asked."""
    return _TOKEN.fullmatch(text) is not None


def token_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def fault_of_name(name: str) -> str | None:
    """Return why a token cannot have this name; None: it can."""
    if name == ANONYMOUS:
        return f"{name!r} is the name of callers without a token: choose another name"
    if _NAME.fullmatch(name) is None:
        return (
            f"a token cannot be named {name!r}: use 1 to 64 letters, digits, '.', '_', '-' and "
            "'@', beginning with a letter or digit"
        )
    return None


def bearer_token(authorization: str | None) -> str | None:
    """Return the token in an Authorization header; None: the header contains no token."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _shown(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
