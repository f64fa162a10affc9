from jobmanager.demo import Rate


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate(over=6.0)

    assert rate.note(0.0, 0) == 0.0
    assert rate.note(2.0, 400) == 200.0
    assert rate.note(8.0, 1000) == 100.0  # the first look is too long ago


def test_a_new_attempt_counts_from_nothing() -> None:
    rate = Rate(over=6.0)
    rate.note(0.0, 5000)

    assert rate.note(1.0, 0) == 0.0
    assert rate.note(2.0, 200) == 200.0
