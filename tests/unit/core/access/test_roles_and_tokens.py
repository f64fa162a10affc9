"""Roles in their order, tokens as they are kept, and when a server needs them."""

from datetime import timedelta
from functools import partial
from itertools import combinations
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.access.exposure import ConflictingExposure, exposure_of, is_loopback
from jobmanager.core.access.roles import Role
from jobmanager.core.access.tokens import (
    AccessToken,
    bearer_token,
    fault_of_name,
    has_form_of_a_token,
    token_hash,
    token_text,
)
from tests.support.builders import NOW

SECOND = timedelta(seconds=1)


def test_each_role_may_do_what_the_roles_before_it_may() -> None:
    assert [str(role) for role in Role] == ["viewer", "operator", "developer", "admin"]
    for smaller, larger in combinations(Role, 2):
        assert larger.covers(smaller)
        assert not smaller.covers(larger)
    assert all(role.covers(role) for role in Role)


@given(st.binary(min_size=32, max_size=32))
def test_a_token_has_its_form_and_only_its_hash_is_kept(random: bytes) -> None:
    text = token_text(random)

    assert text.startswith("hg_")
    assert has_form_of_a_token(text)
    assert len(token_hash(text)) == 64
    assert text[3:] not in token_hash(text)


@given(st.text(max_size=60))
def test_what_is_no_token_is_not_looked_for(text: str) -> None:
    assert not has_form_of_a_token(text + "!")
    assert not has_form_of_a_token("hg_" + "a" * 42 + "é")


def test_a_token_that_is_revoked_or_expired_opens_nothing() -> None:
    token = AccessToken(uuid4(), "ci", Role.OPERATOR, NOW, expires_at=NOW + SECOND)
    revoked = AccessToken(uuid4(), "old", Role.ADMIN, NOW, revoked_at=NOW)

    assert token.is_usable(NOW)
    assert not token.is_usable(NOW + SECOND)
    assert "expired at" in (token.refusal(NOW + SECOND) or "")
    assert "'old' was revoked" in (revoked.refusal(NOW) or "")


def test_the_use_of_a_token_is_noted_once_a_minute() -> None:
    fresh = AccessToken(uuid4(), "ci", Role.OPERATOR, NOW)
    used = AccessToken(uuid4(), "ci", Role.OPERATOR, NOW, last_used_at=NOW)

    assert fresh.is_use_worth_noting(NOW)
    assert not used.is_use_worth_noting(NOW + 59 * SECOND)
    assert used.is_use_worth_noting(NOW + 60 * SECOND)


@pytest.mark.parametrize("name", ["ci", "anna@example.com", "deploy-1.2_x"])
def test_names_of_tokens(name: str) -> None:
    assert fault_of_name(name) is None


@pytest.mark.parametrize("name", ["", "anonymous", "a b", "-x", "a/b", "é", "x" * 65, "a\n"])
def test_no_names_of_tokens(name: str) -> None:
    assert fault_of_name(name) is not None


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer hg_x", "hg_x"),
        ("bearer   hg_x ", "hg_x"),
        ("Basic abc", None),
        ("Bearer", None),
        ("", None),
        (None, None),
    ],
)
def test_the_token_in_a_header(header: str | None, token: str | None) -> None:
    assert bearer_token(header) == token


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST."])
def test_on_loopback_no_token_is_needed_unless_asked_for(host: str) -> None:
    assert is_loopback(host)
    assert not exposure_of(host, require_tokens=False, insecure=False).needs_tokens
    assert exposure_of(host, require_tokens=True, insecure=False).needs_tokens


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "headgate.example.com", ""])
def test_elsewhere_tokens_are_needed_unless_refused(host: str) -> None:
    asked = exposure_of(host, require_tokens=False, insecure=False)
    refused = exposure_of(host, require_tokens=False, insecure=True)

    assert asked.needs_tokens
    assert not refused.needs_tokens
    assert "--insecure" in refused.why


def test_a_server_on_loopback_that_others_reach_needs_tokens() -> None:
    told = partial(exposure_of, "127.0.0.1", require_tokens=False, insecure=False)

    assert told(trusts_proxies=True).needs_tokens
    assert told(advertised_host="headgate.example").needs_tokens
    assert not told(advertised_host="127.0.0.1").needs_tokens


def test_two_wishes_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ConflictingExposure, match="--require-tokens and --insecure"):
        exposure_of("127.0.0.1", require_tokens=True, insecure=True)
