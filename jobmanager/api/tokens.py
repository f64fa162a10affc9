"""Native routes about access: the caller, tokens and the audit."""

from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from jobmanager.api.context import SUBJECT, Ctx, CurrentCaller
from jobmanager.api.shapes.access import (
    AuditItem,
    AuditPage,
    NewTokenResponse,
    TokenList,
    TokenResponse,
    WhoAmI,
)
from jobmanager.core.access.roles import Role
from jobmanager.core.access.tokens import AccessToken
from jobmanager.services.ports.access import AuditEntry

router = APIRouter(tags=["access"])
_LONGEST_MS = 100 * 366 * 86_400_000
"""A hundred years."""


class TokenRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="The name of the person or program that uses the token.")
    role: Role
    expires_in_ms: int | None = Field(
        None, ge=1, le=_LONGEST_MS, description="None: the token never expires."
    )


@router.get("/whoami", summary="The caller's name and role")
async def whoami(context: Ctx, caller: CurrentCaller) -> WhoAmI:
    return WhoAmI(
        name=caller.name,
        role=caller.role,
        covers=[role for role in Role if caller.role.covers(role)],
        needs_token=context.access.needs_tokens,
        expires_at=caller.token_expires_at,
    )


@router.post("/tokens", status_code=HTTPStatus.CREATED, summary="Create a token")
async def create(request: Request, context: Ctx, body: TokenRequest) -> NewTokenResponse:
    lasts = None if body.expires_in_ms is None else timedelta(milliseconds=body.expires_in_ms)
    request.scope[SUBJECT] = body.name
    made = await context.access.create(body.name, body.role, lasts)
    return NewTokenResponse(**_facts(made.token, context.clock()), token=made.text)


@router.get("/tokens", summary="All tokens, the newest first, without their secret text")
async def token_list(context: Ctx) -> TokenList:
    found, now = await context.access.tokens.all(), context.clock()
    return TokenList(items=[TokenResponse(**_facts(one, now)) for one in found], next=None)


@router.delete("/tokens/{name}", summary="Revoke a token")
async def revoke(name: Annotated[str, Path(max_length=255)], context: Ctx) -> TokenResponse:
    return TokenResponse(**_facts(await context.access.revoke(name), context.clock()))


@router.get("/audit", summary="The audit: requests that would change something, the newest first")
async def audit(
    context: Ctx,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="The id of an entry.")] = None,
) -> AuditPage:
    found = await context.audit.before(before, limit)
    items = [_item(one) for one in found]
    return AuditPage(items=items, next=items[-1].id if len(items) == limit else None)


def _facts(token: AccessToken, now: datetime) -> dict[str, Any]:
    return {
        "name": token.name,
        "role": token.role,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "last_used_at": token.last_used_at,
        "is_usable": token.is_usable(now),
    }


def _item(entry: AuditEntry) -> AuditItem:
    assert entry.id is not None
    return AuditItem(
        id=entry.id,
        at=entry.at,
        actor=entry.actor,
        role=entry.role,
        origin=entry.origin,
        method=entry.method,
        route=entry.route,
        subject=entry.subject,
        status=entry.status,
        forwarded_by=entry.forwarded_by,
    )
