"""Tables of `headgate sql`: declared in a YAML catalogue, or by `CREATE TABLE … WITH (…)`.

A table holds the fields of a source or a sink. The statements decide which: a table that is read
is a source, a table that is inserted into is a sink.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from jobmanager.client.errors import HeadgateError
from jobmanager.core.durations import render
from jobmanager.core.graph.spark_interval import NotAnInterval, interval_of

SETTINGS = ("name", "mode", "parallelism", "max_parallelism", "checkpointing", "restart") + (
    "execution",
    "spark",
    "artifacts",
)
_WHOLE_NUMBERS = frozenset(
    ["rows", "rows_per_second", "max_files_per_batch", "port", "parallelism", "max_parallelism"]
    + ["retained", "tolerable_failures", "attempts", "max_failures", "max_attempts"]
)
_LISTS = frozenset(["partition_by", "key", "artifacts"])
_WATERMARK = re.compile(
    r"WATERMARK\s+FOR\s+`?(\w+)`?\s+AS\s+`?(\w+)`?(?:\s*-\s*INTERVAL\s+'?(\d+)'?\s+(\w+))?",
    re.IGNORECASE,
)


class SqlFault(HeadgateError):
    """The SQL cannot be made into a job."""


@dataclass
class Catalogue:
    """Tables by name, and settings of the job."""

    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def table(self, name: str) -> Mapping[str, Any]:
        if name not in self.tables:
            known = ", ".join(sorted(self.tables)) or "none"
            raise SqlFault(
                f"there is no table {name!r}, only {known}: declare it in the catalogue, or by "
                "CREATE TABLE"
            )
        return self.tables[name]


def read_catalogue(document: Mapping[str, Any]) -> Catalogue:
    """Read a catalogue from YAML: `sources`, `sinks` or `tables` by name, and job settings."""
    found = Catalogue()
    for section in ("tables", "sources", "sinks"):
        tables = document.get(section) or {}
        if not isinstance(tables, Mapping):
            raise SqlFault(f"{section} of the catalogue is not a mapping of tables by name")
        for name, fields in tables.items():
            if not isinstance(fields, Mapping) or "connector" not in fields:
                raise SqlFault(f"table {name!r} of the catalogue has no connector")
            found.tables[str(name)] = dict(fields)
    for name, value in document.items():
        if name in SETTINGS:
            found.settings[name] = value
        elif name not in ("tables", "sources", "sinks"):
            raise SqlFault(f"the catalogue has an unknown field {name!r}")
    return found


def statements(text: str) -> list[str]:
    """Split a text into its statements."""
    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError as error:
        raise SqlFault(f"this is not SQL: {_in_one_line(error)}") from error
    found: list[str] = []
    current: list[Token] = []
    for token in [*tokens, Token(TokenType.SEMICOLON, ";")]:
        if token.token_type is not TokenType.SEMICOLON:
            current.append(token)
        elif current:
            found.append(text[current[0].start : current[-1].end + 1])
            current = []
    return found


def declare(statement: str, catalogue: Catalogue) -> bool:
    """Add a `CREATE TABLE` or `SET` to the catalogue. False: it is another statement."""
    words = statement.split(maxsplit=2)
    first = words[0].upper() if words else ""
    if first == "SET":
        _set(statement, catalogue)
        return True
    if first != "CREATE":
        return False
    header = re.match(
        r"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?`?(\w+)`?\s*", statement, re.IGNORECASE
    )
    if header is None:
        raise SqlFault(f"only tables can be created: {_shortened(statement)}")
    name, rest = header[1], statement[header.end() :]
    columns, rest = _parenthesis(rest) if rest.startswith("(") else ("", rest)
    with_ = re.match(r"\s*WITH\s*(?=\()", rest, re.IGNORECASE)
    if with_ is None:
        raise SqlFault(f"table {name!r}: WITH ('connector' = …) is missing after its columns")
    options, rest = _parenthesis(rest[with_.end() :])
    if rest.strip():
        raise SqlFault(f"table {name!r}: nothing can follow WITH (…): {_shortened(rest)}")
    table = _nested(f"table {name!r}", _pairs(name, options))
    schema, watermark = _columns(name, columns)
    if schema:
        table["schema"] = schema
    if watermark:
        table["watermark"] = watermark
    if "connector" not in table:
        raise SqlFault(f"table {name!r} has no 'connector' among its options")
    catalogue.tables[name] = table
    return True


def _set(statement: str, catalogue: Catalogue) -> None:
    found = re.fullmatch(r"SET\s+'?([\w.]+)'?\s*=\s*'?(.*?)'?\s*", statement, re.IGNORECASE)
    if found is None:
        raise SqlFault(f"{_shortened(statement)} is not of the form SET 'setting' = 'value'")
    name, value = found[1], found[2]
    if name.startswith("spark."):
        catalogue.settings.setdefault("spark", {})[name] = value
        return
    if name.partition(".")[0] not in SETTINGS:
        raise SqlFault(f"there is no setting {name!r}: use one of {', '.join(SETTINGS)}")
    for key, inner in _nested("SET", [(name, value)]).items():
        known = catalogue.settings.get(key)
        if isinstance(known, dict) and isinstance(inner, dict):
            inner = {**known, **inner}
        catalogue.settings[key] = inner


def _columns(table: str, text: str) -> tuple[str, dict[str, str] | None]:
    columns: list[str] = []
    watermark = None
    for part in _parts(text):
        if re.match(r"(PRIMARY|FOREIGN|UNIQUE|CONSTRAINT)\b", part, re.IGNORECASE):
            raise SqlFault(f"table {table!r}: {_shortened(part)} is not supported: leave it out")
        if not re.match(r"WATERMARK\b", part, re.IGNORECASE):
            columns.append(part)
            continue
        found = _WATERMARK.fullmatch(part.strip())
        if found is None or found[1] != found[2]:
            raise SqlFault(
                f"table {table!r}: a watermark is WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
            )
        delay = "0s" if found[3] is None else _interval(f"{found[3]} {found[4]}")
        watermark = {"column": found[1], "delay": delay}
    return ", ".join(columns), watermark


def _interval(text: str) -> str:
    try:
        return render(interval_of(text))
    except NotAnInterval as error:
        raise SqlFault(str(error)) from error


def _pairs(table: str, text: str) -> Iterator[tuple[str, str]]:
    for part in _parts(text):
        found = re.fullmatch(r"\s*'([^']+)'\s*=\s*'((?:[^']|'')*)'\s*", part)
        if found is None:
            raise SqlFault(f"table {table!r}: {_shortened(part)} is not 'option' = 'value'")
        yield found[1], found[2].replace("''", "'")


def _nested(
    where: str, pairs: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Nest dotted names: `options.header` is `header` in `options`. Numbers and lists are converted
    as their fields need.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        *path, last = name.split(".", 1) if "." in name else [name]
        place = found
        for step in path:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise SqlFault(f"{where}: {step!r} is both a value and a group of values")
        place[last] = value if path and path[0] in ("options", "columns") else _typed(last, value)
    return found


def _typed(name: str, value: str) -> Any:
    if name in _WHOLE_NUMBERS and value.strip().isdigit():
        return int(value)
    if name in _LISTS:
        return [one.strip() for one in value.split(",") if one.strip()]
    return value


def _parts(text: str) -> list[str]:
    """Split at commas that are outside of parentheses and string literals."""
    parts, depth, quoted, start = [], 0, "", 0
    for position, character in enumerate(text):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'`\"":
            quoted = character
        elif character in "(<":
            depth += 1
        elif character in ")>":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [one for one in [*parts, text[start:].strip()] if one]


def _parenthesis(text: str) -> tuple[str, str]:
    """Return the content of the parenthesis at the beginning of the text, and what follows it."""
    depth, quoted = 0, ""
    for position, character in enumerate(text):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'`\"":
            quoted = character
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return text[1:position], text[position + 1 :]
    raise SqlFault(f"a parenthesis is not closed: {_shortened(text)}")


def _shortened(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= 60 else f"{plain[:57]}…"


def _in_one_line(error: Exception) -> str:
    return re.sub(r"\x1b\[\d+m", "", " ".join(str(error).split()))
