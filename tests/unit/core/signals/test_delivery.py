"""When a delivery is tried again, given up, and what it holds back meanwhile."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.signals.delivery import (
    GIVE_UP_AFTER,
    STEPS_ASIDE_AFTER,
    Answered,
    Delivery,
    DeliveryStatus,
    NotSent,
    SendOutcome,
    after_try,
    ready,
)
from tests.support.builders import NOW

A_SECOND = timedelta(seconds=1)
AWAY = NotSent("Connection refused", A_SECOND)
TAKEN = Answered(204, "", A_SECOND)


def a_delivery(number: int = 1, target: str = "a", due_in: int = 0) -> Delivery:
    due_at = NOW + timedelta(seconds=due_in)
    return Delivery(target, UUID(int=number), "restart", "{}", NOW, due_at, id=number)


def rejected(status: int = 400) -> Answered:
    return Answered(status, "no", A_SECOND)


def test_a_delivery_that_is_taken_has_ended() -> None:
    found = after_try(a_delivery(), TAKEN, NOW)

    assert found.status is DeliveryStatus.DELIVERED
    assert (found.ended_at, found.tries, found.answer_status) == (NOW, 1, 204)
    assert (found.error, found.took_ms) == (None, 1000)
    assert after_try(found, AWAY, NOW + A_SECOND) == found


def test_pauses_grow_to_an_hour_and_after_a_day_it_is_given_up() -> None:
    delivery, now, pauses = a_delivery(), NOW, []
    while delivery.status is DeliveryStatus.PENDING:
        delivery = after_try(delivery, AWAY, now)
        pauses.append(int((delivery.due_at - now).total_seconds()))
        now = max(now, delivery.due_at)

    assert pauses[:11] == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600]
    assert delivery.status is DeliveryStatus.GIVEN_UP
    assert GIVE_UP_AFTER <= (delivery.ended_at or NOW) - NOW <= GIVE_UP_AFTER + timedelta(hours=1)
    assert delivery.error == "Connection refused"
    assert len(pauses) < 40


def test_what_a_target_asks_for_is_done_within_reason() -> None:
    soon = after_try(a_delivery(), Answered(429, "", A_SECOND, timedelta(seconds=90)), NOW)
    late = after_try(a_delivery(), Answered(503, "", A_SECOND, timedelta(days=9)), NOW)

    assert soon.due_at - NOW == timedelta(seconds=90)
    assert late.due_at - NOW == timedelta(hours=1)


def test_a_redirect_is_no_success_and_says_why() -> None:
    found = after_try(a_delivery(), Answered(302, "", A_SECOND), NOW)

    assert found.status is DeliveryStatus.PENDING
    assert found.error == "answered 302: redirects are not followed, give the final address"


@pytest.mark.parametrize(
    ("outcome", "steps_aside"),
    [(rejected(400), True), (rejected(404), True), (rejected(429), False), (AWAY, False)]
    + [(Answered(500, "", A_SECOND), False)],
)
def test_only_what_is_rejected_steps_aside(outcome: SendOutcome, steps_aside: bool) -> None:
    delivery, now = a_delivery(), NOW
    for _ in range(STEPS_ASIDE_AFTER - 1):
        delivery = after_try(delivery, outcome, now)
        assert not delivery.steps_aside
        now = delivery.due_at
    delivery = after_try(delivery, outcome, now)

    assert delivery.steps_aside is steps_aside
    younger = a_delivery(2)
    assert ready([younger, delivery], set(), now) == ([younger] if steps_aside else [])
    assert ready([younger, delivery], set(), delivery.due_at) == [delivery]


def test_each_target_gets_its_oldest_delivery_and_no_target_waits_for_another() -> None:
    waiting = [a_delivery(1, "a", due_in=5), a_delivery(2, "a"), a_delivery(3, "b")]
    waiting += [a_delivery(4, "b"), a_delivery(5, "c")]

    assert [one.id for one in ready(waiting, set(), NOW)] == [3, 5]
    assert [one.id for one in ready(waiting, {"c"}, NOW)] == [3]
    assert [one.id for one in ready(waiting, {"c"}, NOW + 5 * A_SECOND)] == [1, 3]


def test_what_cannot_be_sent_at_all_is_given_up_at_once() -> None:
    found = after_try(a_delivery(), NotSent("the URL cannot be read", is_final=True), NOW)

    assert found.status is DeliveryStatus.GIVEN_UP


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.just(AWAY),
                st.builds(
                    Answered,
                    st.integers(100, 599),
                    st.just(""),
                    st.just(A_SECOND),
                    st.none() | st.timedeltas(timedelta(), timedelta(days=2)),
                ),
            ),
            st.timedeltas(timedelta(), timedelta(hours=9)),
        ),
        max_size=60,
    )
)
def test_a_delivery_ends_once_and_every_pause_is_bounded(
    tries: list[tuple[SendOutcome, timedelta]],
) -> None:
    delivery, now = a_delivery(), NOW
    for outcome, later in tries:
        now += later
        before = delivery
        delivery = after_try(before, outcome, now)
        if before.status is not DeliveryStatus.PENDING:
            assert delivery == before
            continue
        assert delivery.tries == before.tries + 1
        if delivery.status is DeliveryStatus.PENDING:
            assert now < delivery.due_at <= now + timedelta(hours=1)
            assert now - NOW < GIVE_UP_AFTER
            assert delivery.ended_at is None
        else:
            assert delivery.ended_at == now
            is_success = isinstance(outcome, Answered) and outcome.is_success
            assert (delivery.status is DeliveryStatus.DELIVERED) is is_success
            assert replace(delivery, key=UUID(int=9)).error == (
                None if is_success else delivery.error
            )
