from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.graph.parallelism import divisors
from jobmanager.core.plan.key_groups import Layout, moves, owned, owner, subtasks

K = st.integers(min_value=1, max_value=2000)


@given(K, st.data())
def test_every_key_group_has_exactly_one_owner(groups: int, data: st.DataObject) -> None:
    parallelism = data.draw(st.sampled_from(divisors(groups)))
    for layout in Layout:
        seen = [
            group
            for subtask in range(subtasks(layout, parallelism))
            for group in owned(layout, subtask, parallelism, groups)
        ]
        assert sorted(seen) == list(range(groups))
        for subtask in range(subtasks(layout, parallelism)):
            for group in owned(layout, subtask, parallelism, groups):
                assert owner(layout, group, parallelism) == subtask


@given(K, st.integers(min_value=-(2**31), max_value=2**31 - 1), st.data())
def test_the_owner_of_a_keys_group_is_where_spark_keeps_the_key(
    groups: int, spark_hash: int, data: st.DataObject
) -> None:
    parallelism = data.draw(st.sampled_from(divisors(groups)))

    assert owner(Layout.HASHED, spark_hash % groups, parallelism) == spark_hash % parallelism


@given(K, st.data())
def test_what_moves_is_what_has_another_owner(groups: int, data: st.DataObject) -> None:
    before, after = (data.draw(st.sampled_from(divisors(groups))) for _ in range(2))
    for layout in Layout:
        moved = {
            group: pair
            for pair, found in moves(layout, before, after, groups).items()
            for group in found
        }
        for group in range(groups):
            old, new = owner(layout, group, before), owner(layout, group, after)
            assert moved.get(group, (old, old)) == (old, new)
