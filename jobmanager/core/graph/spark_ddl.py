"""Checks whether a text is Spark's DDL for columns: `name TYPE [NOT NULL] [COMMENT '…'], …`.

Only the form is checked, without Spark. Spark may still refuse a text that passes.
"""

import re
from collections.abc import Sequence

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|[A-Za-z_]\w*|\d+|[<>(),:])")
_PLAIN_TYPES = re.compile(
    "boolean|tinyint|byte|smallint|short|int|integer|bigint|long|float|real|double|date|timestamp"
    "|timestamp_ltz|timestamp_ntz|string|binary|void|variant|decimal|dec|numeric|char|character"
    "|varchar|interval|time"
)


class InvalidDdl(ValueError):
    """The text is not a valid schema; the message says why."""


def column_names(text: str) -> list[str]:
    """Return the columns that `text` declares. Raises `InvalidDdl`."""
    reader = _DdlReader(_tokens(text))
    names = reader.columns(None)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidDdl(f"column {twice[0]!r} is declared twice")
    return names


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidDdl(f"{text[at:].strip()[:20]!r} is not Spark DDL")
        found.append(match[1])
        at = match.end()
    return found


class _DdlReader:
    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def columns(self, end: str | None) -> list[str]:
        names = [self._column()]
        while self._peek() == ",":
            self._next()
            names.append(self._column())
        if self._peek() != end:
            raise InvalidDdl(f"{self._peek() or 'the end'!r} after column {names[-1]!r}")
        return names

    def _column(self) -> str:
        name = self._next()
        if not re.fullmatch(r"`.*`|\w+", name):
            raise InvalidDdl(f"{name!r} is not a column name: write name TYPE, name TYPE, …")
        if self._peek() == ":":
            self._next()
        self._type(name)
        if (self._peek() or "").upper() == "NOT":
            self._next()
            self._expect("NULL")
        if (self._peek() or "").upper() == "COMMENT":
            self._next()
            self._next()
        return name[1:-1].replace("``", "`") if name.startswith("`") else name

    def _type(self, column: str) -> None:
        word = self._next().lower()
        if word in ("array", "map", "struct") and self._peek() == "<":
            self._next()
            if word == "struct":
                if self._peek() != ">":
                    self.columns(">")
            else:
                self._type(column)
                if word == "map":
                    self._expect(",")
                    self._type(column)
            self._expect(">")
        elif not _PLAIN_TYPES.fullmatch(word):
            raise InvalidDdl(f"{word.upper()!r} is not a Spark type (column {column!r})")
        elif self._peek() == "(":
            while self._next() != ")":
                pass
        elif word == "interval":
            while re.fullmatch(r"[A-Za-z]+", self._peek() or ""):
                self._next()

    def _expect(self, wanted: str) -> None:
        found = self._next()
        if found.upper() != wanted:
            raise InvalidDdl(f"{found!r} where {wanted} should be")

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> str:
        found = self._peek()
        if found is None:
            raise InvalidDdl("the schema ends too early: write name TYPE, name TYPE, …")
        self._at += 1
        return found
