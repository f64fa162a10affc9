"""Job graphs in files: YAML or JSON, which YAML includes."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import yaml

from jobmanager.client.errors import UnreadableGraph

STANDARD_INPUT = "-"
_BOOL = "tag:yaml.org,2002:bool"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class GraphLoader(yaml.SafeLoader):
    """YAML with the scalars of JSON: `on` is a word and `2026-11-16` a text, as written."""


GraphLoader.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0] not in (_BOOL, _TIMESTAMP)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
GraphLoader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|false)$"), list("tf"))


def read(path: str, standard_input: TextIO | None = None) -> Mapping[str, Any]:
    """The job-graph document in the file at `path`; `-` is the standard input."""
    text = _text(path, standard_input or sys.stdin)
    try:
        document = yaml.load(text, GraphLoader)
    except yaml.YAMLError as error:
        raise UnreadableGraph(f"{path} is neither YAML nor JSON: {_where(error)}") from error
    if not isinstance(document, Mapping):
        raise UnreadableGraph(f"{path} holds no job graph: a mapping with name and vertices")
    return document


def _text(path: str, standard_input: TextIO) -> str:
    if path == STANDARD_INPUT:
        return standard_input.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableGraph(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UnreadableGraph(f"{path} is not UTF-8 text") from error


def _where(error: yaml.YAMLError) -> str:
    """The fault and its place, in one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return f"{error.problem}, line {mark.line + 1}, column {mark.column + 1}"
    return " ".join(str(error).split())
