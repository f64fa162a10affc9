"""Tokens in Postgres, which stores the SHA-256 of each token and never the token itself."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from jobmanager.core.access.roles import Role
from jobmanager.core.access.tokens import AccessToken
from jobmanager.core.errors import TokenNameTaken, TokenNotFound
from jobmanager.store.outages import outages_named
from jobmanager.store.tables import TokenRow

_FIRST_ADMIN_LOCK = 0x544F_4B45


class PostgresTokens:
    """Each method is a transaction of its own."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def with_hash(self, token_hash: str) -> AccessToken | None:
        with outages_named():
            async with self._sessions() as session:
                row = await session.scalar(
                    select(TokenRow).where(TokenRow.token_hash == token_hash)
                )
        return _token(row) if row else None

    async def add(self, token: AccessToken, token_hash: str) -> None:
        try:
            with outages_named():
                async with self._sessions.begin() as session:
                    await session.execute(insert(TokenRow).values(_values(token, token_hash)))
        except IntegrityError as error:
            raise TokenNameTaken(
                f"there is a token {token.name!r} that is not revoked: choose another name, or "
                f"revoke the token first (headgate tokens revoke {token.name})"
            ) from error

    async def add_first_admin(self, token: AccessToken, token_hash: str) -> bool:
        now = token.created_at
        usable = (
            TokenRow.role == Role.ADMIN,
            TokenRow.revoked_at.is_(None),
            or_(TokenRow.expires_at.is_(None), TokenRow.expires_at > now),
        )
        with outages_named():
            async with self._sessions.begin() as session:
                await session.execute(select(func.pg_advisory_xact_lock(_FIRST_ADMIN_LOCK)))
                if await session.scalar(select(TokenRow.id).where(*usable).limit(1)):
                    return False
                # An expired token may have the same name.
                same_name = (TokenRow.name == token.name, TokenRow.revoked_at.is_(None))
                await session.execute(update(TokenRow).where(*same_name).values(revoked_at=now))
                await session.execute(insert(TokenRow).values(_values(token, token_hash)))
        return True

    async def all(self) -> Sequence[AccessToken]:
        with outages_named():
            async with self._sessions() as session:
                rows = await session.scalars(select(TokenRow).order_by(TokenRow.created_at.desc()))
                return [_token(row) for row in rows]

    async def revoke(self, name: str, now: datetime) -> AccessToken:
        with outages_named():
            async with self._sessions.begin() as session:
                row = await session.scalar(
                    update(TokenRow)
                    .where(TokenRow.name == name, TokenRow.revoked_at.is_(None))
                    .values(revoked_at=now)
                    .returning(TokenRow)
                )
                if row is None:
                    raise TokenNotFound(
                        f"no token {name!r} can be revoked: headgate tokens list shows all tokens"
                    )
                return _token(row)

    async def note_use(self, token: AccessToken, now: datetime) -> None:
        with outages_named():
            async with self._sessions.begin() as session:
                await session.execute(
                    update(TokenRow).where(TokenRow.id == token.id).values(last_used_at=now)
                )

    async def prune(self, before: datetime) -> int:
        with outages_named():
            async with self._sessions.begin() as session:
                gone = await session.execute(
                    delete(TokenRow)
                    .where(or_(TokenRow.revoked_at < before, TokenRow.expires_at < before))
                    .returning(TokenRow.id)
                )
                return len(gone.all())


def _values(token: AccessToken, token_hash: str) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "token_hash": token_hash,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
    }


def _token(row: TokenRow) -> AccessToken:
    return AccessToken(
        id=row.id,
        name=row.name,
        role=Role(row.role),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )
