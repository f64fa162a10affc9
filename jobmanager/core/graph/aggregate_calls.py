"""Separates the calls of aggregate functions in an expression from the rest of it.

`sum(price * qty) / count(*)` becomes the calls `sum` of `price * qty` and `count` of nothing, and
around them `<call 0> / <call 1>`. A buffered window computes the calls in Python; Spark computes
their arguments and the expression around them, row by row. So this module only has to understand
the words, quotes and brackets of Spark SQL.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

FUNCTIONS: dict[str, str] = {
    "count": "count", "count_if": "count_if", "sum": "sum", "avg": "avg", "mean": "avg",
    "min": "min", "max": "max", "min_by": "min_by", "max_by": "max_by",
    "first": "first", "first_value": "first", "any_value": "first",
    "last": "last", "last_value": "last",
    "collect_list": "collect_list", "array_agg": "collect_list", "collect_set": "collect_set",
    "stddev": "stddev_samp", "std": "stddev_samp", "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop", "variance": "var_samp", "var_samp": "var_samp",
    "var_pop": "var_pop", "median": "median",
    "bool_and": "bool_and", "every": "bool_and", "bool_or": "bool_or", "any": "bool_or",
    "some": "bool_or",
}  # fmt: skip
"""The aggregate functions of buffered windows, by all names that Spark has for them."""

_UNSUPPORTED = frozenset(
    [
        "approx_count_distinct",
        "approx_percentile",
        "approx_top_k",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bitmap_construct_agg",
        "bitmap_or_agg",
        "corr",
        "count_min_sketch",
        "covar_pop",
        "covar_samp",
        "grouping",
        "grouping_id",
        "histogram_numeric",
        "hll_sketch_agg",
        "hll_union_agg",
        "kurtosis",
        "listagg",
        "mode",
        "percentile",
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "schema_of_json_agg",
        "skewness",
        "string_agg",
        "try_avg",
        "try_sum",
    ]
)
_ARGUMENTS = {"min_by": (2, 2), "max_by": (2, 2), "count": (1, 99), "first": (1, 2), "last": (1, 2)}
_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<quoted>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>\d[\w.]*)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


class UnsupportedAggregate(Exception):
    """An expression that a buffered window cannot compute. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an aggregate function."""

    function: str
    """One of the values of `FUNCTIONS`."""
    text: str
    """The call as written, from which Spark determines its type."""
    arguments: tuple[str, ...]
    """Spark SQL over the rows; none for `count(*)`."""
    is_distinct: bool = False
    where: str | None = None
    """A condition: only rows for which it is true count."""
    ignores_nulls: bool = False
    """For `first` and `last`; the other functions always ignore nulls."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words

    def is_sign(self, sign: str) -> bool:
        return self.kind == "sign" and self.text == sign


def column_of(number: int) -> str:
    """Return the column that holds the result of the call with that number."""
    return f"__headgate_call_{number}"


def take_apart(expressions: Sequence[str]) -> tuple[list[Call], list[str]]:
    """Return the calls of all expressions, without duplicates, and each expression over their
    columns.

    Raises `UnsupportedAggregate`.
    """
    calls: list[Call] = []
    return calls, [_CallReader(_tokens(text), calls).around(text) for text in expressions]


class _CallReader:
    def __init__(self, tokens: list[_Token], calls: list[Call]) -> None:
        self._tokens = tokens
        self._calls = calls

    def around(self, text: str) -> str:
        found = False
        parts: list[str] = []
        at = 0
        while at < len(self._tokens):
            token = self._tokens[at]
            is_call = token.kind == "word" and self._next_is(at, "(") and not self._is_part(at)
            if is_call and token.text.lower() in _UNSUPPORTED:
                raise UnsupportedAggregate(
                    f"{token.text} is not available in this kind of window: use one of "
                    f"{', '.join(FUNCTIONS)}, or a function of your own (function and output)"
                )
            if is_call and token.text.lower() in FUNCTIONS:
                call, at = self._call(at)
                if call not in self._calls:
                    self._calls.append(call)
                parts.append(column_of(self._calls.index(call)))
                found = True
            else:
                parts.append(token.text)
                at += 1
        if not found:
            raise UnsupportedAggregate(
                f"{text!r} has no aggregate function: use one of {', '.join(FUNCTIONS)}, or a "
                "function of your own (function and output)"
            )
        return "".join(parts)

    def _call(self, start: int) -> tuple[Call, int]:
        opening = self._solid(start + 1)
        closing = self._closing(opening)
        name = self._tokens[start].text
        arguments = list(_split(self._tokens[opening + 1 : closing]))
        is_distinct = bool(arguments) and _starts_with(arguments[0], "distinct")
        if arguments and (is_distinct or _starts_with(arguments[0], "all")):
            arguments[0] = _after_first(arguments[0])
        texts = tuple(_text(one) for one in arguments)
        ignores_nulls, end = self._nulls(closing + 1)
        where, end = self._filter(end)
        function = FUNCTIONS[name.lower()]
        if function == "count" and texts in (("*",), ("1",)):
            texts = ()
        elif function in ("first", "last") and len(texts) == 2:
            ignores_nulls = ignores_nulls or texts[1].lower() == "true"
            texts = texts[:1]
        call_text = "".join(one.text for one in self._tokens[start:end]).strip()
        call = Call(function, call_text, texts, is_distinct, where, ignores_nulls)
        self._check(call, name, arguments)
        return call, end

    def _check(self, call: Call, name: str, arguments: list[list[_Token]]) -> None:
        least, most = _ARGUMENTS.get(call.function, (1, 1))
        if not least <= len(arguments) <= most or any(not _text(one) for one in arguments):
            raise UnsupportedAggregate(
                f"{name} takes {least if least == most else f'{least} to {most}'} "
                f"argument{'s' if most > 1 else ''}: {call.text!r} has {len(arguments)}"
            )
        if call.is_distinct and call.function in ("min_by", "max_by", "first", "last"):
            raise UnsupportedAggregate(f"DISTINCT has no meaning in {call.text!r}: leave it out")
        for one in [*call.arguments, call.where or ""]:
            inner = [t.text for t in _calls_in(_tokens(one)) if t.text.lower() in FUNCTIONS]
            if inner:
                raise UnsupportedAggregate(
                    f"{inner[0]} inside of {name} in {call.text!r}: aggregates cannot be nested"
                )

    def _nulls(self, at: int) -> tuple[bool, int]:
        """Read `IGNORE NULLS` or `RESPECT NULLS` after a call."""
        word = self._solid(at)
        nulls = self._solid(word + 1)
        if nulls < len(self._tokens) and self._tokens[nulls].is_word("nulls"):
            if self._tokens[word].is_word("ignore"):
                return True, nulls + 1
            if self._tokens[word].is_word("respect"):
                return False, nulls + 1
        return False, at

    def _filter(self, at: int) -> tuple[str | None, int]:
        """Read `FILTER (WHERE …)` after a call."""
        word = self._solid(at)
        if word < len(self._tokens) and self._tokens[word].is_word("filter"):
            opening = self._solid(word + 1)
            if opening < len(self._tokens) and self._tokens[opening].is_sign("("):
                closing = self._closing(opening)
                inside = self._tokens[opening + 1 : closing]
                if _starts_with(inside, "where"):
                    return _text(_after_first(inside)), closing + 1
        return None, at

    def _closing(self, opening: int) -> int:
        depth = 0
        for at in range(opening, len(self._tokens)):
            depth += self._tokens[at].is_sign("(") - self._tokens[at].is_sign(")")
            if depth == 0:
                return at
        raise UnsupportedAggregate(f"a bracket is not closed: {_text(self._tokens)!r}")

    def _solid(self, at: int) -> int:
        """Return the position of the next token that is not space."""
        while at < len(self._tokens) and self._tokens[at].kind == "space":
            at += 1
        return at

    def _next_is(self, at: int, sign: str) -> bool:
        solid = self._solid(at + 1)
        return solid < len(self._tokens) and self._tokens[solid].is_sign(sign)

    def _is_part(self, at: int) -> bool:
        """Whether the word is part of a longer name: `x.count(…)`."""
        return at > 0 and self._tokens[at - 1].is_sign(".")


def _tokens(text: str) -> list[_Token]:
    return [_Token(str(m.lastgroup), m.group()) for m in _TOKEN.finditer(text)]


def _split(tokens: Sequence[_Token]) -> Iterator[list[_Token]]:
    """Split arguments at the commas that are not inside further brackets."""
    if not _text(tokens):
        return
    depth = 0
    one: list[_Token] = []
    for token in tokens:
        depth += token.kind == "sign" and token.text in "(["
        depth -= token.kind == "sign" and token.text in ")]"
        if depth == 0 and token.is_sign(","):
            yield one
            one = []
        else:
            one.append(token)
    yield one


def _calls_in(tokens: Sequence[_Token]) -> Iterator[_Token]:
    solid = [token for token in tokens if token.kind != "space"]
    for token, following in pairwise(solid):
        if token.kind == "word" and following.is_sign("("):
            yield token


def _starts_with(tokens: Sequence[_Token], word: str) -> bool:
    solid = [token for token in tokens if token.kind != "space"]
    # Spark has no function `distinct(x)`: the word before brackets means the same
    return bool(solid) and solid[0].is_word(word) and len(solid) > 1


def _after_first(tokens: Sequence[_Token]) -> list[_Token]:
    first = next(at for at, token in enumerate(tokens) if token.kind != "space")
    return list(tokens[first + 1 :])


def _text(tokens: Sequence[_Token]) -> str:
    return "".join(token.text for token in tokens).strip()
