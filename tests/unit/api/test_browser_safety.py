"""Which requests are refused because a web page of somebody else could have sent them."""

import pytest

from jobmanager.api.app import make_app
from jobmanager.api.browser_safety import (
    RequestHead,
    accepted_types,
    host_name,
    refusal_of_request,
)
from jobmanager.core.errors import (
    CrossSiteRequest,
    DomainError,
    UnknownHost,
    UnsupportedContentType,
)

NAMES = frozenset(["headgate.example.com"])
HERE = "127.0.0.1:8081"
OWN = f"http://{HERE}"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
RUNNER = "/v1/runners/5f0c/heartbeat"


@pytest.mark.parametrize(
    ("host", "refused"),
    [
        (None, None),  # HTTP/1.0, as health checks of load balancers
        ("localhost", None),
        ("LOCALHOST.:8081", None),
        ("127.0.0.1:8081", None),
        ("127.5.6.7", None),
        ("[::1]:8081", None),
        ("10.2.3.4:8081", None),  # an address cannot be rebound
        ("[fd00::1]", None),
        ("headgate.example.com", None),
        ("Headgate.Example.COM:443", None),
        ("attacker.example.com:8081", UnknownHost),
        ("localhost.attacker.com", UnknownHost),
        ("127.0.0.1.attacker.com:8081", UnknownHost),
        ("sub.headgate.example.com", UnknownHost),
        ("headgate.example.com@attacker.com", UnknownHost),
        ("attacker.com, localhost", UnknownHost),  # the header twice
        ("2130706433", UnknownHost),
        ("", UnknownHost),
        ("[::1", UnknownHost),
        ("localhost:8081:8081", UnknownHost),
    ],
)
@pytest.mark.parametrize("path", ["/", "/v1/jobs", "/healthz", "/runners"])
def test_only_addresses_and_names_of_this_server_are_hosts(
    host: str | None, refused: type[DomainError] | None, path: str
) -> None:
    assert kind_of(RequestHead("GET", path, host=host)) is refused


def test_a_refused_host_is_named_with_the_option_that_allows_it() -> None:
    error = refusal_of_request(RequestHead("GET", "/", host="jm.lan:8081"), NAMES)

    assert "'jm.lan'" in str(error)
    assert "--allow-host jm.lan" in str(error)


def test_a_runners_call_is_judged_by_its_token_not_by_the_host() -> None:
    head = RequestHead("POST", RUNNER, host="renamed:8081", content_type=JSON, has_body=True)

    assert kind_of(head) is None


@pytest.mark.parametrize(
    ("origin", "fetch_site", "refused"),
    [
        (None, None, None),  # curl, Flink's clients, our own
        (OWN, None, None),
        (OWN, "same-origin", None),
        (None, "none", None),
        ("http://attacker.com", None, CrossSiteRequest),
        ("http://attacker.com", "cross-site", CrossSiteRequest),
        ("http://127.0.0.1:3000", None, CrossSiteRequest),
        ("http://127.0.0.1:3000", "same-site", CrossSiteRequest),
        ("http://127.0.0.1", None, CrossSiteRequest),
        ("http://127.0.0.1:8081.attacker.com", None, CrossSiteRequest),
        ("null", None, CrossSiteRequest),
        ("", None, CrossSiteRequest),
        (f"chrome-extension://{HERE}", None, CrossSiteRequest),
        (f"{OWN}, http://attacker.com", None, CrossSiteRequest),
        (None, "cross-site", CrossSiteRequest),
        (None, "same-site", CrossSiteRequest),
        (None, "unheard-of", CrossSiteRequest),
        (OWN, "cross-site", CrossSiteRequest),
    ],
)
@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("POST", "/v1/gc", ""),
        ("DELETE", "/artifacts/7", ""),
        ("PATCH", "/v1/jobs/7", "mode=cancel"),
        ("GET", "/v1/events", ""),
        ("GET", "/jobs/7/events", ""),
        ("GET", "/v1/jobs/7/logs", "follow=true"),
        ("GET", "/v1/jobs/7/logs", "tail=5&%66ollow=1"),
        ("GET", "/v1/jobs/7/plan", "spark=true"),
        ("GET", "/v1/savepoints/7/state/revenue/sum", ""),
    ],
)
def test_other_pages_write_nothing_and_hold_no_connection(
    method: str,
    path: str,
    query: str,
    origin: str | None,
    fetch_site: str | None,
    refused: type[DomainError] | None,
) -> None:
    head = RequestHead(method, path, query, host=HERE, origin=origin, fetch_site=fetch_site)

    assert kind_of(head) is refused


@pytest.mark.parametrize("path", ["/", "/v1/jobs", "/v1/jobs/7/logs", "/v1/jobs/7/plan", "/docs"])
def test_a_link_on_another_page_leads_to_the_dashboard_and_to_plain_reads(path: str) -> None:
    head = RequestHead("GET", path, host=HERE, fetch_site="cross-site")

    assert kind_of(head) is None


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://headgate.example.com", "headgate.example.com"),  # a proxy with TLS
        ("https://headgate.example.com", "headgate.example.com:443"),
        ("http://headgate.example.com", "headgate.example.com:80"),
        ("http://[::1]:8081", "[::1]:8081"),
        ("http://LocalHost:8081", "localhost:8081"),
    ],
)
def test_an_origin_is_the_servers_own_also_without_its_default_port(origin: str, host: str) -> None:
    assert kind_of(RequestHead("POST", "/v1/gc", host=host, origin=origin)) is None


@pytest.mark.parametrize(
    ("path", "content_type", "has_body", "is_refused"),
    [
        ("/v1/jobs", JSON, True, False),
        ("/v1/jobs", "application/json; charset=UTF-8", True, False),
        ("/v1/jobs", "Application/JSON", True, False),
        ("/v1/jobs", "application/yaml", True, False),
        ("/jobs", "text/yaml", True, False),
        ("/v1/jobs/7/upgrade", "application/yaml", True, False),
        ("/v1/jobs", "text/plain", True, True),
        ("/v1/jobs", FORM, True, True),
        ("/v1/jobs", "multipart/form-data; boundary=x", True, True),
        ("/v1/jobs", "text/plain; application/json", True, True),
        ("/v1/jobs", "text/plain, application/json", True, True),
        ("/v1/jobs", "application/octet-stream", True, True),
        ("/v1/jobs", None, True, True),
        ("/v1/artifacts", "application/octet-stream", True, False),
        ("/artifacts", "text/plain", True, True),
        ("/v1/artifacts", JSON, True, True),
        ("/v1/artifacts", None, True, True),
        ("/v1/jobs/7/stop", "application/json;charset=UTF-8", True, False),
        ("/v1/jobs/7/stop", "application/yaml", True, True),
        ("/v1/gc", None, False, False),
        ("/v1/gc", JSON, False, False),
        ("/v1/gc", FORM, False, True),  # an empty form
        (RUNNER, JSON, True, False),
        (RUNNER, "text/plain", True, True),
    ],
)
def test_a_body_has_a_content_type_that_its_route_documents(
    path: str, content_type: str | None, has_body: bool, is_refused: bool
) -> None:
    head = RequestHead("POST", path, host=HERE, content_type=content_type, has_body=has_body)

    assert kind_of(head) is (UnsupportedContentType if is_refused else None)


def test_a_refused_content_type_is_answered_with_the_accepted_ones() -> None:
    head = RequestHead("POST", "/v1/artifacts", host=HERE, content_type=FORM, has_body=True)
    error = refusal_of_request(head, NAMES)

    assert FORM in str(error)
    assert "application/octet-stream" in str(error)


def test_every_documented_content_type_is_accepted_and_none_is_one_of_a_form() -> None:
    documented = {
        path: set(operation["requestBody"]["content"])
        for path, operations in make_app().openapi()["paths"].items()
        for operation in operations.values()
        if "requestBody" in operation
    }

    assert {"/v1/jobs", "/v1/artifacts", "/v1/jobs/{jobid}/stop"} <= set(documented)
    for path, types in documented.items():
        accepted = set(accepted_types(path))
        assert types <= accepted, path
        if path == "/v1/jars/upload":  # Flink's: browsers have to name the page
            assert accepted == {"multipart/form-data"}
        else:
            assert not accepted & {"text/plain", FORM, "multipart/form-data"}


@pytest.mark.parametrize(
    ("host", "name"),
    [("A.b:1", "a.b"), ("[::1]:1", "::1"), ("x_y-z", "x_y-z"), (".", None), ("a b", None)],
)
def test_the_name_in_a_host_header(host: str, name: str | None) -> None:
    assert host_name(host) == name


def kind_of(head: RequestHead) -> type[DomainError] | None:
    error = refusal_of_request(head, NAMES)
    return None if error is None else type(error)
