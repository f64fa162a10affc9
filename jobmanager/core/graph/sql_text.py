"""Determines from the text of a query what state it keeps in a stream.

Only Spark fully understands a query. Which subtasks acknowledge a barrier has to be known without
Spark, so this module looks at the keywords, and the runner compares the result with Spark's own
plan: if the two differ, the query is refused. A query has at most one stateful operator.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise

_NOT_CODE = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`""", re.DOTALL
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[(),.;]")
_AGGREGATES = frozenset(
    """
    any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor
    bool_and bool_or collect_list collect_set corr count count_if covar_pop covar_samp every
    first first_value kurtosis last last_value listagg max max_by mean median min min_by mode
    percentile percentile_approx skewness some std stddev stddev_pop stddev_samp string_agg sum
    try_avg try_sum var_pop var_samp variance
    """.split()  # noqa: SIM905
)
_WINDOWS = frozenset(["window", "session_window"])
_JOINING = "join"


class SqlState(StrEnum):
    """The state that a query keeps in a stream."""

    NONE = "none"
    AGGREGATE = "aggregate"
    """An aggregation by key: each batch emits the keys that changed."""
    TOTAL = "total"
    """An aggregation without a key."""
    WINDOW = "window"
    """An aggregation by window: each window is emitted once."""
    JOIN = "join"
    """Of two streams."""


class TooMuch(ValueError):
    """The query keeps state in a way that a stream cannot; the message says what to do."""


def state_of(query: str, streams: int) -> SqlState:
    """Return the state that the query keeps if `streams` of its inputs are streams. Raises
    `TooMuch`.
    """
    words = _words(query)
    _refuse_sets(words)
    found = [*_aggregations(words), *_joins(words, streams)]
    if len(found) > 1:
        raise TooMuch(
            "a query of a stream can keep state once, and this one has "
            f"{' and '.join(found)}: split it into several vertices"
        )
    return found[0] if found else SqlState.NONE


def _words(query: str) -> list[str]:
    """Return keywords, names and punctuation, without comments, string literals and quoted
    names.
    """
    return [word.lower() for word in _WORD.findall(_NOT_CODE.sub(" ", query))]


def _refuse_sets(words: Sequence[str]) -> None:
    for word, then in pairwise([*words, ""]):
        if (word, then) == ("select", "distinct"):
            raise TooMuch(
                "in a stream SELECT DISTINCT emits a row each time the row comes: "
                "use a distinct vertex"
            )
        if word == "union" and then != "all":
            raise TooMuch("in a stream UNION has to be UNION ALL: put a distinct vertex behind it")
        if word in ("intersect", "except", "minus"):
            raise TooMuch(f"{word.upper()} is not supported in a stream: use a join vertex")


def _aggregations(words: Sequence[str]) -> Iterator[SqlState]:
    for scope in _scopes(words):
        pairs = list(pairwise([*scope, ""]))
        if ("group", "by") in pairs:
            by = scope[pairs.index(("group", "by")) :]
            is_window = any(word in _WINDOWS and then == "(" for word, then in pairwise(by))
            yield SqlState.WINDOW if is_window else SqlState.AGGREGATE
        elif any(word in _AGGREGATES and then == "(" for word, then in pairs):
            yield SqlState.TOTAL


def _scopes(words: Sequence[str]) -> Iterator[list[str]]:
    """Return the words of each SELECT, without the words of SELECTs inside it."""
    open_scopes: list[list[str]] = [[]]
    depths = [0]
    depth = 0
    for word in words:
        if word == "(":
            depth += 1
        if word == ")":
            depth -= 1
            while len(depths) > 1 and depth < depths[-1]:
                yield open_scopes.pop()
                depths.pop()
        if word == "select":
            if len(depths) > 1 and depths[-1] == depth:  # after UNION ALL
                yield open_scopes.pop()
                depths.pop()
            open_scopes.append([])
            depths.append(depth)
        open_scopes[-1].append(word)
    yield from reversed(open_scopes[1:])


def _joins(words: Sequence[str], streams: int) -> Iterator[SqlState]:
    if streams > 1 and _JOINING in words:
        yield SqlState.JOIN
