import pytest

from taskrunner.core.state_key import InvalidKey, parse, with_window_end
from taskrunner.core.state_view import Field, StateView, view_of

WINDOW = Field("window", "struct<…>", (Field("start", "TIMESTAMP"), Field("end", "TIMESTAMP")))
COUNT = Field("count", "BIGINT")


def a_view(*key: Field) -> StateView:
    return view_of(key, [COUNT], [field.name for field in key], None)


ONE = a_view(Field("auction", "BIGINT"))
TWO = a_view(Field("auction", "BIGINT"), Field("bidder", "STRING"))
WINDOWED = a_view(WINDOW, Field("auction", "BIGINT"))


@pytest.mark.parametrize(
    ("text", "view", "key"),
    [
        ("5", ONE, {"auction": "5"}),
        ("null", ONE, {"auction": "null"}),
        ("{not json", ONE, {"auction": "{not json"}),
        ('{"auction": 5}', ONE, {"auction": "5"}),
        ('{"auction": 0.1000000000000000055}', ONE, {"auction": "0.1000000000000000055"}),
        ('{"auction": null}', ONE, {"auction": None}),
        ('{"auction": true}', ONE, {"auction": "true"}),
        ('{"bidder": "x"}', TWO, {"bidder": "x"}),
        ('{"auction": 5, "bidder": "x"}', TWO, {"auction": "5", "bidder": "x"}),
        ("5", WINDOWED, {"auction": "5"}),
        ('{"window_start": "2026-01-01"}', WINDOWED, {"window_start": "2026-01-01"}),
    ],
)
def test_what_a_text_means(text: str, view: StateView, key: dict[str, str | None]) -> None:
    assert parse(text, view) == key


@pytest.mark.parametrize(
    ("text", "view", "told"),
    [
        ("5", TWO, "'5' is not a JSON object: the key columns are auction BIGINT, bidder STRING"),
        ('{"price": 1}', ONE, "there is no key column 'price'"),
        ("{}", ONE, "names no column"),
        ('{"auction": [1]}', ONE, '["1"] is no value of key column auction, which is BIGINT'),
        ("5", a_view(), "has no key"),
    ],
)
def test_what_is_no_key_is_told_with_what_one_is(text: str, view: StateView, told: str) -> None:
    with pytest.raises(InvalidKey) as refused:
        parse(text, view)
    assert told in str(refused.value)


def test_the_start_of_a_window_says_its_end() -> None:
    key = {"auction": "5", "window_start": "2026-01-01T00:00:00Z"}
    assert with_window_end(key, 10_000)["window_end"] == "2026-01-01T00:00:10+00:00"


@pytest.mark.parametrize(
    ("key", "window_ms"),
    [
        ({"window_start": "2026-01-01T00:00:00Z"}, None),
        ({"window_start": "yesterday"}, 10_000),
        ({"window_start": None}, 10_000),
        ({"auction": "5"}, 10_000),
    ],
)
def test_where_it_does_not_the_key_stays_as_it_is(
    key: dict[str, str | None], window_ms: int | None
) -> None:
    assert with_window_end(key, window_ms) == key
