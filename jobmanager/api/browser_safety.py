"""Refuses requests that a web page of another site could have sent.

A page that a developer visits can send requests to a server on the same machine: a form or a
script posts to 127.0.0.1 without asking the server first, and a host name of the page's own
that is changed to mean 127.0.0.1 (DNS rebinding) makes the page look like the server's own. So

1. the Host header has to be an IP address, which nobody can rebind, or a name of this server;
2. a request that changes something, keeps a connection open or starts Spark has to come from a
   page of this server, by the headers in which browsers name the page (Origin, Sec-Fetch-Site);
3. a body has to have a content type that its route documents. A page can send none of these
   types to another server unless that server allows it first, and this server never does. The one
   exception is Flink's upload of a jar, which is a form: there the second rule has to be enough,
   and a browser that does not name the page is refused.

Programs other than browsers send neither Origin nor Sec-Fetch-Site. The host rule does not apply
to runners' calls: they carry a token that no page has, and a runner that is refused by a renamed
server would end its job.
"""

import ipaddress
import re
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobmanager.api import problems
from jobmanager.api.graph_body import GRAPH_TYPES
from jobmanager.api.limits import is_runner_call
from jobmanager.core.errors import (
    CrossSiteRequest,
    DomainError,
    MalformedRequest,
    UnknownHost,
    UnsupportedContentType,
)

_JSON_TYPES = ("application/json",)
_UPLOAD_TYPES = ("application/octet-stream",)
_FORM_TYPES = ("multipart/form-data",)
"""Every page can send a form to any server: see `_refusal_of_old_browser`."""
_READS = frozenset(["GET", "HEAD", "OPTIONS"])
_OWN_PAGES = frozenset(["same-origin", "none"])
"""Values of Sec-Fetch-Site; `none` means that somebody typed the address."""
_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[\w.-]+))(?::\d{1,5})?", re.ASCII)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The parts of a request that the rules look at."""

    method: str
    path: str
    query: str = ""
    host: str | None = None
    origin: str | None = None
    fetch_site: str | None = None
    content_type: str | None = None
    has_body: bool = False
    user_agent: str = ""


def refusal_of_request(head: RequestHead, host_names: frozenset[str]) -> DomainError | None:
    """Return why the request is refused; None: it is allowed. `host_names` are in lower case."""
    return (
        _refusal_of_path(head)
        or _refusal_of_host(head, host_names)
        or _refusal_of_page(head)
        or _refusal_of_old_browser(head)
        or _refusal_of_content_type(head)
    )


def host_name(host: str) -> str | None:
    """Return the name or address in a Host header, without the port; None: not a valid host."""
    found = _HOST.fullmatch(host.strip())
    if found is None:
        return None
    return (found["ipv6"] or found["name"]).lower().removesuffix(".") or None


class BrowserSafety:
    """Refuses requests before their bodies are read."""

    def __init__(self, app: ASGIApp, host_names: frozenset[str]) -> None:
        self._app = app
        self._host_names = frozenset(name.lower().removesuffix(".") for name in host_names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        error = refusal_of_request(_head_of(scope), self._host_names)
        if error is None:
            await self._app(scope, receive, send)
            return
        with suppress(OSError):
            await problems.response(scope, error)(scope, _nothing_more, send)


def _refusal_of_path(head: RequestHead) -> MalformedRequest | None:
    """The patterns of routes would take the line end for the end, and these rules would not."""
    if not head.path.endswith("\n"):
        return None
    return MalformedRequest(f"the path {head.path!r} ends with a line end: leave it out")


def _refusal_of_host(head: RequestHead, host_names: frozenset[str]) -> UnknownHost | None:
    if head.host is None or is_runner_call(head.path):  # every browser sends a Host
        return None
    name = host_name(head.host)
    if name is None:
        return UnknownHost(f"the Host header {head.host!r} is neither a name nor an address")
    if name == "localhost" or name in host_names or _is_ip_address(name):
        return None
    return UnknownHost(
        f"the Host header names {name!r}, which is not a name of this server: use its IP address "
        f"or localhost, or start the server with --allow-host {name}"
    )


def _refusal_of_page(head: RequestHead) -> CrossSiteRequest | None:
    if head.method in _READS and not _is_costly_read(head):
        return None
    if head.fetch_site is not None and head.fetch_site.strip().lower() not in _OWN_PAGES:
        page = head.origin or "another site"
        return CrossSiteRequest(
            f"a web page of {page} sent this request (Sec-Fetch-Site: {head.fetch_site}): among "
            "web pages, only the server's own may send it"
        )
    if head.origin is not None and not _is_own_origin(head.origin, head.host or ""):
        return CrossSiteRequest(
            f"a web page of {head.origin} sent this request to {head.host}: among web pages, only "
            "the server's own may send it; a proxy in front of the server has to pass the "
            "Host header on as the browser sent it"
        )
    return None


def _refusal_of_old_browser(head: RequestHead) -> CrossSiteRequest | None:
    """A form, and a GET that changes something, are the two requests that any page can make a
    browser send without asking the server first. Browsers of today say which page sent them; one
    that does not say so is refused.
    """
    match _parts(head.path):
        case ["jars", "upload"] | ["jobs", _, "yarn-cancel" | "yarn-stop"]:
            is_told = head.origin is not None or head.fetch_site is not None
            if head.user_agent.startswith("Mozilla/") and not is_told:
                return CrossSiteRequest(
                    "a browser sent this request and does not say for which page (Origin, "
                    "Sec-Fetch-Site): use a browser of today, or another program"
                )
    return None


def _refusal_of_content_type(head: RequestHead) -> UnsupportedContentType | None:
    if head.method in _READS:
        return None
    if head.content_type is None and not head.has_body:
        return None
    accepted = accepted_types(head.path)
    given = (head.content_type or "").partition(";")[0].strip().lower()
    if given in accepted:
        return None
    what = f"the content type {given!r} is not accepted here" if given else "no Content-Type"
    return UnsupportedContentType(f"{what}: send the body as {' or '.join(accepted)}")


def accepted_types(path: str) -> tuple[str, ...]:
    """Return the content types that a body sent to `path` may have."""
    match _parts(path):
        case ["artifacts"]:
            return _UPLOAD_TYPES
        case ["jars", "upload"]:
            return _FORM_TYPES
        case ["jobs"] | ["jobs", _, "upgrade"]:
            return GRAPH_TYPES
        case _:
            return _JSON_TYPES


def _is_costly_read(head: RequestHead) -> bool:
    """Whether a read keeps a connection open or starts Spark."""
    match _parts(head.path):
        case ["events"] | ["jobs", _, "events"]:
            return True
        case ["jobs" | "savepoints", _, "state", *_]:
            return True
        case ["jobs", _, "yarn-cancel" | "yarn-stop"] | ["jars", _, "plan"]:
            return True
        case ["jobs", _, "logs"]:
            return "follow" in parse_qs(head.query)
        case ["jobs", _, "plan"]:
            return "spark" in parse_qs(head.query)
        case _:
            return False


def _is_own_origin(origin: str, host: str) -> bool:
    scheme, separator, place = origin.strip().lower().partition("://")
    if not separator or scheme not in _DEFAULT_PORTS:
        return False  # "null", or an extension of a browser
    port = _DEFAULT_PORTS[scheme]
    return place.removesuffix(port) == host.strip().lower().removesuffix(port)


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _parts(path: str) -> list[str]:
    return path.removeprefix("/v1/").strip("/").split("/")


def _head_of(scope: Scope) -> RequestHead:
    headers = Headers(scope=scope)
    return RequestHead(
        method=scope["method"],
        path=scope["path"],
        query=scope["query_string"].decode("latin-1"),
        host=_all_of(headers, "host"),
        origin=_all_of(headers, "origin"),
        fetch_site=_all_of(headers, "sec-fetch-site"),
        content_type=_all_of(headers, "content-type"),
        user_agent=headers.get("user-agent", ""),
        has_body="transfer-encoding" in headers or headers.get("content-length", "0") != "0",
    )


def _all_of(headers: Headers, name: str) -> str | None:
    """Join all values of a header. A repeated header then fits no rule, whichever value a route
    would read.
    """
    found = headers.getlist(name)
    return ", ".join(found) if found else None


async def _nothing_more() -> Message:
    return {"type": "http.disconnect"}
