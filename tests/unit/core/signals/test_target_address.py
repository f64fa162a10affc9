"""Which URLs a webhook may have, and which addresses its host may have."""

from ipaddress import ip_address

import pytest

from jobmanager.core.signals.target_address import UnusableTarget, address_rules, parse_target

PUBLIC = "93.184.216.34"
SERVED_ELSEWHERE = address_rules((), takes_any=False)
ONLY_THIS_MACHINE = address_rules((), takes_any=True)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example.com/services/T0/B0/secret?x=1", "https://hooks.example.com/…"),
        ("https://Hooks.Example.com:443", "https://hooks.example.com"),
        ("http://hooks.example.com:8080/", "http://hooks.example.com:8080"),
        ("https://[2001:db8::1]:8443/x", "https://[2001:db8::1]:8443/…"),
        ("https://chat.example.com/${secret:chat}", "https://chat.example.com/…"),
    ],
)
def test_what_is_behind_the_host_is_not_shown(url: str, shown: str) -> None:
    assert parse_target(url).shown == shown


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://example.com/x", "https://"),
        ("example.com/x", "https://"),
        ("https://", "a host"),
        ("https://me:pass@example.com/x", "user or a password"),
        ("https://exa mple.com", "space"),
        ("https://example.com/a\nb", "control character"),
        ("https://example.com:99999/", "cannot be read"),
        ("https://${secret:host}/x", "not in its host"),
        ("https://example.com/${secret:1!}", "${secret:name}"),
        ("https://example.com/" + "x" * 3000, "2048"),
    ],
)
def test_urls_that_no_webhook_has(url: str, says: str) -> None:
    with pytest.raises(UnusableTarget) as refused:
        parse_target(url)

    assert says in str(refused.value)
    assert "pass@" not in str(refused.value)


NOT_PUBLIC = {
    "127.0.0.1": "loopback",
    "127.9.9.9": "loopback",
    "::1": "loopback",
    "10.1.2.3": "private",
    "172.16.0.1": "private",
    "192.168.1.1": "private",
    "100.64.0.1": "private",
    "fd00::1": "private",
    "169.254.169.254": "link-local",
    "fe80::1": "link-local",
    "0.0.0.0": "reserved",
    "224.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:169.254.169.254": "link-local",
    "64:ff9b::7f00:1": "loopback",
    "2002:7f00:1::": "loopback",
}


@pytest.mark.parametrize(("address", "what"), NOT_PUBLIC.items())
def test_addresses_that_are_not_public_are_refused(address: str, what: str) -> None:
    url = parse_target("https://hooks.example.com/x")

    fault = SERVED_ELSEWHERE.fault(url, [ip_address(PUBLIC), ip_address(address)]) or ""

    assert what in fault
    assert "--allow-path https://hooks.example.com" in fault


def test_public_addresses_are_taken() -> None:
    url = parse_target("https://hooks.example.com/x")

    for address in (PUBLIC, "2606:4700::1", "::ffff:93.184.216.34"):
        assert SERVED_ELSEWHERE.fault(url, [ip_address(address)]) is None


def test_a_server_for_its_own_machine_takes_all_but_link_local_addresses() -> None:
    url = parse_target("http://127.0.0.1:9000/x")

    for address, what in NOT_PUBLIC.items():
        is_refused = ONLY_THIS_MACHINE.fault(url, [ip_address(address)]) is not None
        assert is_refused is (what == "link-local"), address


@pytest.mark.parametrize(
    ("allowed", "url", "is_taken"),
    [
        ("https://hooks.internal:8443", "https://hooks.internal:8443/x?y=1", True),
        ("https://hooks.internal", "https://hooks.internal:443/${secret:x}", True),
        ("https://hooks.internal/a", "https://hooks.internal/a/b", True),
        ("https://hooks.internal/a", "https://hooks.internal/ab", False),
        ("https://hooks.internal/a", "https://hooks.internal/a/../b", False),
        ("https://hooks.internal", "http://hooks.internal/x", False),
        ("https://hooks.internal", "https://hooks.internal:8443/x", False),
        ("https://hooks.internal", "https://hooks.internal.example.com/x", False),
        ("/data", "https://hooks.internal/x", False),
        ("s3://hooks.internal", "https://hooks.internal/x", False),
    ],
)
def test_places_that_the_server_was_told(allowed: str, url: str, is_taken: bool) -> None:
    rules = address_rules([allowed], takes_any=True)

    fault = rules.fault(parse_target(url), [ip_address("10.0.0.1")])

    assert (fault is None) is is_taken


def test_a_server_that_was_told_places_takes_no_others() -> None:
    rules = address_rules(["/data"], takes_any=True)

    assert rules.fault(parse_target("http://127.0.0.1/"), [ip_address("127.0.0.1")])
