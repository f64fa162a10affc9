"""Which files of held batches become one file: the pure rules."""

from collections import Counter
from itertools import pairwise
from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from taskrunner.core.file_joins import JoinedFile, JoinGroup, after_join, join_groups
from taskrunner.core.sink_records import OutputFile, Record, final_name
from tests.unit.taskrunner.builders import JOB, SINK

TARGET = 1000
ATTEMPT = 3


def a_record(batch: int, *sizes: int, directory: str = "", rows: int = 100) -> Record:
    files = tuple(
        OutputFile(
            f"staging/{ATTEMPT}-{batch}-x/{directory}part-{part:05d}.json",
            final_name(JOB, SINK, batch, part, f"{directory}part-{part:05d}-x-c000.json"),
            size,
        )
        for part, size in enumerate(sizes)
    )
    return Record(batch, rows, ATTEMPT, files)


def batches_of(groups: list[JoinGroup]) -> list[list[int]]:
    return [[one.batch for one in group.records] for group in groups]


def joined_files(group: JoinGroup) -> list[JoinedFile]:
    return [
        JoinedFile(one, f"staging/3-9-y/0/part-{number:05d}-z-c000.json", one.bytes)
        for number, one in enumerate(group.bins)
    ]


def test_small_files_of_batches_that_are_shown_together_become_one() -> None:
    [group] = join_groups([a_record(n, 10, 20) for n in range(4)], [], TARGET)

    assert [one.batch for one in group.records] == [0, 1, 2, 3]
    assert [one.bytes for one in group.bins] == [120]


def test_a_restore_point_divides_groups_and_its_own_batch_is_before_it() -> None:
    records = [a_record(n, 10) for n in range(1, 9)]

    assert batches_of(join_groups(records, [3, 7], TARGET)) == [[1, 2, 3], [4, 5, 6, 7]]


def test_a_restore_point_at_a_batch_without_rows_divides_too() -> None:
    records = [a_record(n, 10, 10) for n in (1, 5)]

    assert batches_of(join_groups(records, [], TARGET)) == [[1, 5]]
    assert batches_of(join_groups(records, [3], TARGET)) == [[1], [5]]
    assert batches_of(join_groups(records, [0, 5, 9], TARGET)) == [[1, 5]]


def test_files_that_are_large_enough_stay_as_they_are() -> None:
    records = [a_record(0, 700, 10), a_record(1, 2000), a_record(2, 10)]

    [group] = join_groups(records, [], TARGET)

    assert [one.batch for one in group.records] == [0, 2]
    assert [one.bytes for one in group.bins] == [20]


def test_a_file_without_another_of_its_directory_stays_as_it_is() -> None:
    records = [a_record(0, 10, directory="day=1/"), a_record(1, 10, directory="day=2/")]

    assert join_groups(records, [], TARGET) == []
    assert join_groups([a_record(0, 10)], [], TARGET) == []


def test_the_last_batch_gets_the_joined_files_and_all_the_rows() -> None:
    records = [a_record(3, 10, rows=5), a_record(4, 10, 800, rows=81), a_record(6, 10, 10, rows=7)]
    [group] = join_groups(records, [], TARGET)

    after = after_join(group, joined_files(group), JOB, SINK)

    [kept] = after.left
    assert (kept.batch, [one.bytes for one in kept.files]) == (4, [800])
    assert after.gone == (3,)
    [file] = after.carrier.files
    assert (after.carrier.batch, after.carrier.rows + kept.rows) == (6, 93)
    assert file.bytes == 40
    assert file.final == f"{JOB.hex}-{SINK}-0000000006-00002.json", "no name is used twice"


def test_a_joined_file_is_in_the_directory_of_its_parts() -> None:
    records = [a_record(n, 10, directory="day=1/hour=2/") for n in range(2)]
    [group] = join_groups(records, [], TARGET)

    [file] = after_join(group, joined_files(group), JOB, SINK).carrier.files

    assert str(PurePosixPath(file.final).parent) == "day=1/hour=2"


SIZES = st.lists(st.integers(0, 2 * TARGET), max_size=4)
RECORDS = st.dictionaries(
    st.integers(0, 40), st.tuples(SIZES, st.sampled_from(["", "day=1/", "day=2/"])), max_size=20
).map(
    lambda found: [
        a_record(batch, *sizes, directory=directory, rows=7 * batch + 1)
        for batch, (sizes, directory) in found.items()
    ]
)
POINTS = st.lists(st.integers(-1, 41), max_size=8)


@given(RECORDS, POINTS)
def test_every_file_is_in_one_place_and_no_group_spans_a_restore_point(
    records: list[Record], points: list[int]
) -> None:
    groups = join_groups(records, points, TARGET)
    # every batch is in one group at most, in order, and groups do not overlap
    batches = [batch for group in batches_of(groups) for batch in group]
    assert batches == sorted(set(batches))
    for group in groups:
        first, last = group.records[0].batch, group.records[-1].batch
        assert not [one for one in points if first <= one < last]
    for before, after in pairwise(groups):
        between = range(before.records[-1].batch, after.records[0].batch)
        assert [one for one in points if one in between], "groups are as large as they may be"
    # every file stays or goes into one joined file
    after_all = [after_join(group, joined_files(group), JOB, SINK) for group in groups]
    replaced = {batch for one in groups for batch in (record.batch for record in one.records)}
    left = [one for one in records if one.batch not in replaced]
    left += [record for one in after_all for record in (*one.left, one.carrier)]
    names = Counter(file.final for record in left for file in record.files)
    names.update(file.final for one in groups for each in one.bins for file in each.files)
    assert set(names.values()) <= {1}
    assert {file.final for one in records for file in one.files} <= set(names)
    assert sum(one.rows for one in left) == sum(one.rows for one in records)
    # the sizes are about right, and nothing is rewritten for nothing
    for each in (one for group in groups for one in group.bins):
        assert len(each.files) > 1
        assert each.bytes < 2 * TARGET
        assert all(3 * file.bytes < 2 * TARGET for file in each.files)
        assert {PurePosixPath(file.final).parent for file in each.files} == {each.directory}


@given(RECORDS)
def test_at_most_a_few_small_files_are_left_in_a_directory(records: list[Record]) -> None:
    """Between two restore points: about as many files as the bytes of small files demand."""
    groups = join_groups(records, [], TARGET)
    joined = {
        file.final: number
        for number, each in enumerate(one for group in groups for one in group.bins)
        for file in each.files
    }
    for directory in ("", "day=1", "day=2"):
        small = [
            file
            for one in records
            for file in one.files
            if 3 * file.bytes < 2 * TARGET
            and str(PurePosixPath(file.final).parent) == (directory or ".")
        ]
        after = {joined.get(file.final, file.final) for file in small}
        assert len(after) <= max(1, round(sum(one.bytes for one in small) / TARGET))
