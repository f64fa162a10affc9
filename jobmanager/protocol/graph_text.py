"""Job graphs as text: YAML, which includes JSON."""

import re
from typing import Any

import yaml

_BOOL = "tag:yaml.org,2002:bool"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class NotYaml(ValueError):
    """The text is not YAML; the message says what is wrong and where, in one line."""


class GraphLoader(yaml.SafeLoader):
    """YAML with the scalars of JSON: `on` and `2026-11-16` are strings."""


GraphLoader.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0] not in (_BOOL, _TIMESTAMP)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
GraphLoader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|false)$"), list("tf"))


def parse_yaml(text: str | bytes) -> Any:
    """Parse `text`. Raises `NotYaml`."""
    try:
        return yaml.load(text, GraphLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise NotYaml(_where(error)) from error


def _where(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return f"{error.problem}, line {mark.line + 1}, column {mark.column + 1}"
    return " ".join(str(error).split()) or type(error).__name__
