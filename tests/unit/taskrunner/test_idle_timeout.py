from datetime import timedelta

from taskrunner.core.idle_timeout import IdleTimeout


def patience() -> IdleTimeout:
    return IdleTimeout(100.0, while_reachable=timedelta(seconds=20), at_most=timedelta(seconds=300))


def test_a_jobmanager_that_is_there_and_sends_nothing_is_not_waited_for_long() -> None:
    waiting = patience()

    assert [waiting.is_over(now, is_reachable=True) for now in (100.5, 120, 121)] == [
        False,
        False,
        True,
    ]


def test_one_that_is_gone_is_waited_for_and_given_its_time_when_it_is_back() -> None:
    waiting = patience()

    assert not waiting.is_over(110, is_reachable=True)
    assert not waiting.is_over(200, is_reachable=False)
    assert not waiting.is_over(210, is_reachable=True)
    assert not waiting.is_over(229, is_reachable=True)
    assert waiting.is_over(231, is_reachable=True)


def test_no_wait_is_for_ever() -> None:
    waiting = patience()

    assert not waiting.is_over(399, is_reachable=False)
    assert waiting.is_over(401, is_reachable=False)
