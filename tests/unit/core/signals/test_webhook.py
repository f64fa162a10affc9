"""Which history entries a webhook is told of, and what it is sent."""

import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.life.records import HistoryEntry
from jobmanager.core.signals.signature import is_genuine, signature
from jobmanager.core.signals.webhook import (
    RULES,
    Webhook,
    WebhookEvent,
    WebhookId,
    body_of,
    delivery_key,
    fault_of_name,
    state_after,
)
from tests.support.builders import NOW

JOB = JobId(UUID(int=7))
WEBHOOK = Webhook(
    WebhookId(UUID(int=1)), "ops", "https://hooks.example/x", tuple(RULES), "k" * 32, NOW
)


@pytest.mark.parametrize(
    ("kind", "event", "state"),
    [
        ("job_running", WebhookEvent.STATE_CHANGED, "running"),
        ("job_failed", WebhookEvent.STATE_CHANGED, "failed"),
        ("job_restarting", WebhookEvent.RESTART, "restarting"),
        ("job_stalled", WebhookEvent.STALLED, "stalled"),
        ("job_degraded", WebhookEvent.DEGRADED, "degraded"),
        ("job_healthy", WebhookEvent.RECOVERED, "running"),
        ("checkpoint_aborted", WebhookEvent.CHECKPOINT_FAILED, None),
        ("rescale_completed", WebhookEvent.RESCALED, None),
        ("rescale_rolled_back", WebhookEvent.RESCALED, None),
        ("upgrade_failed", WebhookEvent.UPGRADED, None),
        ("savepoint_completed", WebhookEvent.SAVEPOINT_COMPLETED, None),
        ("attempt_running", None, None),
        ("job_submitted", None, None),
    ],
)
def test_what_an_entry_is_to_a_webhook(
    kind: str, event: WebhookEvent | None, state: str | None
) -> None:
    assert WEBHOOK.event_for(JOB, "orders", kind) is event
    assert state_after(kind) == state


def test_a_restart_is_also_a_change_of_state() -> None:
    told_of_states = replace(WEBHOOK, on=(WebhookEvent.STATE_CHANGED,))
    told_of_rescales = replace(WEBHOOK, on=(WebhookEvent.RESCALED,))

    found = told_of_states.event_for(JOB, "x", "job_restarting")

    assert found is WebhookEvent.STATE_CHANGED
    assert told_of_rescales.event_for(JOB, "x", "job_restarting") is None


@pytest.mark.parametrize(
    ("pattern", "name", "is_told"),
    [
        (None, "orders", True),
        ("orders", "orders", True),
        ("orders-*", "orders-eu", True),
        ("orders-*", "orders", False),
        ("Orders", "orders", False),
        (JOB.hex, "orders", True),
        (str(JOB), "orders", True),
        ("0" * 32, "orders", False),
    ],
)
def test_patterns_of_jobs(pattern: str | None, name: str, is_told: bool) -> None:
    webhook = replace(WEBHOOK, job_pattern=pattern)

    assert (webhook.event_for(JOB, name, "job_failed") is not None) is is_told


def test_an_entry_has_the_same_id_whoever_sends_it() -> None:
    again = WebhookId(UUID(int=1))

    assert delivery_key(WEBHOOK.id, 5) == delivery_key(again, 5)
    assert delivery_key(WEBHOOK.id, 5) != delivery_key(WEBHOOK.id, 6)
    assert delivery_key(WEBHOOK.id, 5) != delivery_key(WebhookId(UUID(int=2)), 5)


def test_the_body_says_what_happened_to_which_job() -> None:
    entry = HistoryEntry(NOW, "job_restarting", "boom\0", AttemptNumber(3), detail={"a": 1})
    key = delivery_key(WEBHOOK.id, 12)

    text = body_of(key, WebhookEvent.RESTART, JOB, "Aufträge", entry, 12)

    assert "\0" not in text
    assert json.loads(text) == {
        "id": str(key),
        "event": "restart",
        "at": "2026-11-16T12:00:00+00:00",
        "job": {"id": JOB.hex, "name": "Aufträge"},
        "state": "restarting",
        "kind": "job_restarting",
        "cause": "boom\0",
        "attempt": 3,
        "checkpoint": None,
        "detail": {"a": 1},
        "sequence": 12,
    }


def test_neither_secret_nor_url_is_in_the_text_of_a_webhook() -> None:
    assert "kkkk" not in repr(WEBHOOK)
    assert "hooks.example" not in repr(WEBHOOK)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 65, "a\n"])
def test_names_that_no_webhook_has(name: str) -> None:
    assert repr(name) in (fault_of_name(name) or "")


def test_a_signature_is_over_time_and_body() -> None:
    header = signature("key", NOW, b"{}")
    late = NOW + timedelta(minutes=6)

    assert header.startswith(f"t={int(NOW.timestamp())},v1=")
    assert is_genuine(header, "key", b"{}", NOW)
    assert not is_genuine(header, "other", b"{}", NOW)
    assert not is_genuine(header, "key", b"{} ", NOW)
    assert not is_genuine(header, "key", b"{}", late)
    assert not is_genuine(header.replace("t=1", "t=2"), "key", b"{}", NOW)
    assert not is_genuine("v1=abc", "key", b"{}", NOW)
    assert not is_genuine("", "key", b"{}", NOW)


def test_a_signature_is_what_openssl_computes() -> None:
    # printf '1794830400.{"a": 1}' | openssl dgst -sha256 -hmac whsec_test
    found = signature("whsec_test", NOW, b'{"a": 1}')

    assert found == (
        "t=1794830400,v1=a09b7c08d40a2a4cbd844e40ff76ee7160509c0ec6bd75334b0cbd8a5c936287"
    )
