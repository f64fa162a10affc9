"""What commands print: data on the standard output, in the form that `-o` asks for.

    table   for people (the default); wide: the same with more columns
    json    the server's answer, as `--json`
    yaml    the same as YAML
    name    ids only, one a line, as other commands take them

Progress and errors go to the standard error.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any

import typer
import yaml


class OutputFormat(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_for_programs(self) -> bool:
        return self in (OutputFormat.JSON, OutputFormat.YAML, OutputFormat.NAME)


_chosen: ContextVar[OutputFormat] = ContextVar("output_format", default=OutputFormat.TABLE)
_LISTS = ("items", "jobs", "history")
_IDS = ("jobid", "jid", "savepoint", "id", "number", "name")
"""Fields by which a thing is known, the more telling first."""


@contextmanager
def printing(chosen: OutputFormat) -> Iterator[None]:
    """Let `emit` print in this format."""
    before = _chosen.set(chosen)
    try:
        yield
    finally:
        _chosen.reset(before)


def is_wide() -> bool:
    return _chosen.get() is OutputFormat.WIDE


def emit(value: object) -> None:
    """Print an answer as `-o` asks for it; for people, as JSON."""
    match _chosen.get():
        case OutputFormat.YAML:
            typer.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
        case OutputFormat.NAME:
            for name in names_of(value):
                typer.echo(name)
        case _:
            typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def names_of(value: object) -> Iterator[str]:
    """Return the id of what an answer describes, or of everything in a list."""
    if isinstance(value, list):
        for one in value:
            yield from names_of(one)
    elif isinstance(value, Mapping):
        yield from _names_of_mapping(value)


def _names_of_mapping(value: Mapping[str, Any]) -> Iterator[str]:
    listed = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)
    result = value.get("result")
    if isinstance(result, Mapping) and result.get("savepoint"):
        yield str(result["savepoint"])  # what an operation made
    elif listed is not None and not any(name in value for name in _IDS):
        yield from names_of(listed)
    else:
        found = next((value[name] for name in _IDS if value.get(name) is not None), None)
        if found is not None:
            yield str(found)
