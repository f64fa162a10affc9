"""The OpenAPI document is made outside of the event loop, and is whole for everybody."""

import asyncio
import threading
from typing import Any

import httpx
import pytest

from jobmanager.api import openapi
from jobmanager.api.app import make_app

pytestmark = pytest.mark.anyio


async def test_the_event_loop_goes_on_while_the_document_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = make_app()
    made_in = []
    original = openapi.document_of

    def making(app: Any) -> dict[str, Any]:
        made_in.append(threading.current_thread())
        return original(app)

    monkeypatch.setattr(openapi, "document_of", making)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        answers = await asyncio.gather(*(http.get("/openapi.json") for _ in range(3)))

    assert [one.status_code for one in answers] == [200] * 3
    assert threading.current_thread() not in made_in
    whole = answers[0].json()
    assert whole["components"]["securitySchemes"]
    assert "Problem" in whole["components"]["schemas"]
    assert all(one.json() == whole for one in answers)
