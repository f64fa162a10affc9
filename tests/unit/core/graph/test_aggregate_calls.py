import pytest

from jobmanager.core.graph.aggregate_calls import Call, UnsupportedAggregate, take_apart


def call_of(text: str) -> Call:
    calls, around = take_apart([text])
    assert around == ["__headgate_call_0"]
    return calls[0]


def test_calls_are_taken_out_and_the_rest_is_left() -> None:
    calls, around = take_apart(["round(sum(price * qty) / count(*), 2)", "count(*) + max(v)"])

    assert [(c.function, c.arguments) for c in calls] == [
        ("sum", ("price * qty",)),
        ("count", ()),
        ("max", ("v",)),
    ]
    assert around == [
        "round(__headgate_call_0 / __headgate_call_1, 2)",
        "__headgate_call_1 + __headgate_call_2",
    ]


@pytest.mark.parametrize(
    ("text", "function", "arguments"),
    [
        ("COUNT ( * )", "count", ()),
        ("count(1)", "count", ()),
        ("count(a, b)", "count", ("a", "b")),
        ("max_by(struct(a, b), c)", "max_by", ("struct(a, b)", "c")),
        ("sum(CASE WHEN k = 'a,(b' THEN 1 ELSE 0 END)", "sum",
         ("CASE WHEN k = 'a,(b' THEN 1 ELSE 0 END",)),
        ("sum(`count(x)`)", "sum", ("`count(x)`",)),
        ("sum(coalesce(m[1, 2], 'it''s'))", "sum", ("coalesce(m[1, 2], 'it''s')",)),
        ("mean(/* count( */ v)", "avg", ("/* count( */ v",)),
    ],
)  # fmt: skip
def test_arguments_are_spark_sql_as_it_was_written(
    text: str, function: str, arguments: tuple[str, ...]
) -> None:
    call = call_of(text)

    assert (call.function, call.arguments) == (function, arguments)


def test_what_stands_around_a_call() -> None:
    assert call_of("count(DISTINCT a, b)").is_distinct
    assert call_of("sum(v) FILTER (WHERE k = 'x')").where == "k = 'x'"
    assert call_of("first(v, true)").ignores_nulls
    assert call_of("last(v) IGNORE NULLS").ignores_nulls
    assert not call_of("last(v) RESPECT NULLS").ignores_nulls
    assert call_of("sum(ALL v)").arguments == ("v",)


def test_equal_calls_are_one() -> None:
    calls, _ = take_apart(["sum(v)", "sum(v) + 1", "sum(w)"])

    assert len(calls) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("percentile(v, 0.5)", "percentile is not available"),
        ("v + 1", "has no aggregate function"),
        ("sum(count(*))", "aggregates cannot be nested"),
        ("sum()", "sum takes 1 argument"),
        ("min_by(v)", "min_by takes 2 arguments"),
        ("sum(v", "a bracket is not closed"),
        ("first(DISTINCT v)", "DISTINCT has no meaning"),
        ("count", "has no aggregate function"),
        ("'sum(v)'", "has no aggregate function"),
    ],
)
def test_what_cannot_be_computed_is_refused(text: str, told: str) -> None:
    with pytest.raises(UnsupportedAggregate, match=told):
        take_apart([text])
