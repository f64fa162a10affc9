"""Serves the dashboard's files at `/`. They are built from `web/`, and may be absent."""

from pathlib import Path
from typing import Annotated

import anyio
from fastapi import APIRouter
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.exceptions import HTTPException

from jobmanager.api.security_headers import POLICY

router = APIRouter(include_in_schema=False)
DIRECTORY = Path(__file__).parents[1] / "dashboard"
_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_ALWAYS = {POLICY: _POLICY}
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
"""Names of assets contain a hash of the content, so a browser may keep an asset for ever."""
_MISSING = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Headgate</title>
<style>body{font:15px/1.5 system-ui;margin:4rem auto;max-width:40rem;padding:0 1rem}</style>
<h1>The dashboard is not built</h1>
<p>The server runs, and its API answers: <a href="docs">/docs</a>.</p>
<p>In a checkout, <code>make web</code> builds the dashboard, and so does <code>make setup</code>.
A wheel made by <code>pip wheel</code> has it inside.</p></html>
"""


@router.get("/")
async def page() -> Response:
    index = DIRECTORY / "index.html"
    if not await anyio.Path(index).is_file():
        return HTMLResponse(_MISSING, 404, _ALWAYS)
    return FileResponse(index, headers={**_ALWAYS, "Cache-Control": "no-cache"})


@router.get("/favicon.svg")
async def icon() -> Response:
    return await _file(DIRECTORY / "favicon.svg", {"Cache-Control": "no-cache"})


@router.get("/theme.js")
async def theme() -> Response:
    return await _file(DIRECTORY / "theme.js", {"Cache-Control": "no-cache"})


@router.get("/assets/{name}")
async def asset(name: Annotated[str, PathParameter(pattern=r"^[\w.-]+$")]) -> Response:
    return await _file(DIRECTORY / "assets" / name, _FOR_EVER)


async def _file(path: Path, headers: dict[str, str]) -> Response:
    if path.name.startswith(".") or not await anyio.Path(path).is_file():
        raise HTTPException(404)
    return FileResponse(path, headers={**_ALWAYS, **headers})
