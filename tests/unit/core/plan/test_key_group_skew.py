from jobmanager.core.plan.key_group_skew import skew


def test_even_groups_have_no_skew() -> None:
    assert skew([5, 5, 5], 3) == 1.0


def test_everything_in_one_group_is_as_many_times_the_mean_as_there_are_groups() -> None:
    assert skew([30], 720) == 720.0


def test_empty_groups_count_as_groups() -> None:
    assert skew([4, 2], 4) == 4 / (6 / 4)


def test_nothing_has_no_skew() -> None:
    assert skew([], 12) is None
