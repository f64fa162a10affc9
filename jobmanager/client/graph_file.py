"""Reads job graphs from files: YAML, which includes JSON."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from jobmanager.client.errors import UnreadableGraph
from jobmanager.protocol.graph_text import NotYaml, parse_yaml

STANDARD_INPUT = "-"


def read(path: str, standard_input: TextIO | None = None) -> Mapping[str, Any]:
    """Read the job-graph document in the file at `path`; `-` is the standard input."""
    text = _text(path, standard_input or sys.stdin)
    try:
        document = parse_yaml(text)
    except NotYaml as error:
        raise UnreadableGraph(f"{path} is neither YAML nor JSON: {error}") from error
    if not isinstance(document, Mapping):
        raise UnreadableGraph(
            f"{path} is not a job graph: a mapping with name and vertices is needed"
        )
    return document


def directory_of(path: str) -> Path:
    """Return the directory that relative paths in the graph at `path` start from, on this
    machine.
    """
    return Path.cwd() if path == STANDARD_INPUT else Path(path).resolve().parent


def _text(path: str, standard_input: TextIO) -> str:
    if path == STANDARD_INPUT:
        return standard_input.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableGraph(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UnreadableGraph(f"{path} is not UTF-8 text") from error
