"""The clients of Elasticsearch and OpenSearch behind one interface: a request, and its answer.

Both products have the same requests for documents, and clients of their own. Requests say plain
JSON, without the version of the client: so a client of one major version writes to a server of
another.
"""

import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from taskrunner.core.bulk_answers import is_full, reason_of
from taskrunner.core.store_failures import (
    StoreFull,
    StoreLoginRefused,
    StoreRefused,
    StoreUnfit,
    StoreUnreachable,
)
from taskrunner.sinks.optional_packages import imported

_ANSWER_SECONDS = 60
_RETRIES = 3
_JSON = "application/json"
_LINES = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    status: int
    body: Mapping[str, Any]

    @property
    def reason(self) -> str:
        return reason_of(self.body.get("error"))


Ask = Callable[[str, str, str | None, Mapping[str, str], str], SearchAnswer]
"""Method, path, body, parameters, content type."""


@dataclass(frozen=True, slots=True)
class SearchAccess:
    """How a server is reached, from the driver and from tasks."""

    product: str
    """`elasticsearch` or `opensearch`."""
    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_certificates: str | None = None
    """In PEM; None: those that the machine trusts."""

    @property
    def name(self) -> str:
        shown = "Elasticsearch" if self.product == "elasticsearch" else "OpenSearch"
        return f"{shown} at {self.url.partition('://')[2]}"

    @contextmanager
    def client(self) -> Iterator["SearchClient"]:
        """A client, for one thread. It connects when it is first used."""
        open_client = _elasticsearch if self.product == "elasticsearch" else _opensearch
        ask, close = open_client(self)
        try:
            yield SearchClient(self, ask)
        finally:
            with suppress(Exception):
                close()

    def tls(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https:"):
            return None
        return ssl.create_default_context(cadata=self.ca_certificates)


@dataclass(frozen=True, slots=True)
class SearchClient:
    access: SearchAccess
    _ask: Ask

    def ask(
        self, method: str, path: str, body: str | None = None, **parameters: str | int
    ) -> SearchAnswer:
        """Sends a request; answers of any status are returned, except refusals that mean the same
        for every request. Raises `StoreFailure`.
        """
        kind = _LINES if path.endswith("_bulk") else _JSON
        named = {key: str(value) for key, value in parameters.items()}
        answer = self._ask(method, path, body, named, kind)
        name = self.access.name
        if answer.status == 401:
            raise StoreLoginRefused(
                f"{name} refuses the login ({answer.reason or 401}): correct user and password, or "
                "the secret that the password refers to"
            )
        if is_full(answer.reason):
            raise StoreFull(
                f"{name} takes no writes ({answer.reason}): free the disk. The batch is written "
                "again after a restart of the job"
            )
        if answer.status == 403:
            raise StoreLoginRefused(
                f"{name}: the user may not do what the sink needs ({answer.reason or 403}): give "
                "it the rights that the page of the connector names"
            )
        return answer

    def expect(
        self, method: str, path: str, body: str | None = None, **parameters: str | int
    ) -> Mapping[str, Any]:
        """The body of an answer that has to be a success. Raises `StoreFailure`."""
        answer = self.ask(method, path, body, **parameters)
        if not 200 <= answer.status < 300:
            raise StoreRefused(
                f"{self.access.name} refuses {method} {path} with status {answer.status}: "
                f"{answer.reason}"
            )
        return answer.body


def _elasticsearch(access: SearchAccess) -> tuple[Ask, Callable[[], None]]:
    package = imported("elasticsearch", "elasticsearch")
    context = access.tls()
    client = package.Elasticsearch(
        access.url,
        request_timeout=_ANSWER_SECONDS,
        max_retries=_RETRIES,
        retry_on_timeout=True,
        **({} if context is None else {"ssl_context": context}),
    )
    login = {}
    if access.user is not None:
        pair = f"{access.user}:{access.password or ''}".encode()
        login["authorization"] = f"Basic {b64encode(pair).decode()}"

    def ask(
        method: str, path: str, body: str | None, parameters: Mapping[str, str], kind: str
    ) -> SearchAnswer:
        # the client's own methods add its major version, which servers before that refuse
        try:
            answer = client.transport.perform_request(
                method,
                f"{path}?{urlencode(parameters)}" if parameters else path,
                headers={**login, "accept": _JSON, "content-type": kind},
                body=body,
            )
        except (package.TransportError, OSError) as error:
            raise _unreachable(access, error) from error
        status = answer.meta.status
        if status < 300 and answer.meta.headers.get("x-elastic-product") != "Elasticsearch":
            raise StoreUnfit(
                f"{access.name} answers, and is not Elasticsearch: is it OpenSearch? Then write "
                "connector: opensearch"
            )
        return SearchAnswer(status, _mapping(answer.body))

    return ask, client.close


def _opensearch(access: SearchAccess) -> tuple[Ask, Callable[[], None]]:
    package = imported("opensearchpy", "opensearch")
    login: dict[str, Any] = {}
    if access.user is not None or access.password is not None:
        login = {"http_auth": (access.user or "", access.password or "")}
    if (context := access.tls()) is not None:
        login |= {"ssl_context": context, "use_ssl": True}
    client = package.OpenSearch(
        hosts=[access.url],
        timeout=_ANSWER_SECONDS,
        max_retries=_RETRIES,
        retry_on_timeout=True,
        **login,
    )

    def ask(
        method: str, path: str, body: str | None, parameters: Mapping[str, str], kind: str
    ) -> SearchAnswer:
        headers = {"accept": _JSON} if body is None else {"accept": _JSON, "content-type": kind}
        try:
            found = client.transport.perform_request(
                method, path, params=dict(parameters), headers=headers, body=body
            )
        except package.ConnectionError as error:
            raise _unreachable(access, error) from error
        except package.TransportError as error:
            status = error.status_code
            if not isinstance(status, int):
                raise _unreachable(access, error) from error
            return SearchAnswer(status, _mapping(error.info))
        return SearchAnswer(200, _mapping(found))

    return ask, client.close


def _mapping(body: object) -> Mapping[str, Any]:
    return body if isinstance(body, Mapping) else {"error": str(body or "")}


def _unreachable(access: SearchAccess, error: Exception) -> StoreUnreachable:
    why = (str(error).splitlines() or [type(error).__name__])[0]
    return StoreUnreachable(
        f"{access.name} does not answer ({why[:300]}): is the server running, is its address "
        "right, and does it speak TLS exactly if the url says https? The batch is written again "
        "after a restart of the job"
    )
