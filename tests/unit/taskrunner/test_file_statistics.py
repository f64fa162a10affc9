from datetime import UTC, date, datetime

from taskrunner.core.file_statistics import ColumnChunk, delta_statistics, text_of_partition


def test_limits_of_all_row_groups_are_joined() -> None:
    chunks = [ColumnChunk("id", 0, 3, 7), ColumnChunk("id", 1, -2, 4)]
    assert delta_statistics(5, chunks) == {
        "numRecords": 5,
        "minValues": {"id": -2},
        "maxValues": {"id": 7},
        "nullCount": {"id": 1},
    }


def test_a_limit_that_is_not_certain_is_left_out() -> None:
    chunks = [
        ColumnChunk("no_limits", 0, 1, 2),
        ColumnChunk("no_limits", 0),
        ColumnChunk("long", 0, "a", "b" * 33),
        ColumnChunk("floating", 0, 1.0, 2.0),
        ColumnChunk("nulls", 4),
        ColumnChunk("unknown", None, 1, 2),
    ]
    found = delta_statistics(4, chunks)
    assert found["minValues"] == {"unknown": 1}
    assert found["nullCount"] == {"no_limits": 0, "long": 0, "floating": 0, "nulls": 4}


def test_times_are_rounded_to_milliseconds_away_from_the_values() -> None:
    time = datetime(2026, 1, 1, 12, 0, 0, 1, UTC)
    found = delta_statistics(1, [ColumnChunk("ts", 0, time, time)])
    assert found["minValues"]["ts"] == "2026-01-01T12:00:00.000Z"
    assert found["maxValues"]["ts"] == "2026-01-01T12:00:00.001Z"
    local = time.replace(tzinfo=None)
    assert delta_statistics(1, [ColumnChunk("ts", 0, local, local)])["minValues"] == {}


def test_days_are_written_as_they_are() -> None:
    found = delta_statistics(1, [ColumnChunk("day", 0, date(2026, 1, 1), date(2026, 2, 1))])
    assert (found["minValues"], found["maxValues"]) == (
        {"day": "2026-01-01"},
        {"day": "2026-02-01"},
    )


def test_a_partition_is_read_from_the_name_of_its_directory() -> None:
    assert text_of_partition("day=2026-01-01") == ("day", "2026-01-01")
    assert text_of_partition("k=a%3Ab%2Fc%") == ("k", "a:b/c%")
    assert text_of_partition("k=__HIVE_DEFAULT_PARTITION__") == ("k", None)
