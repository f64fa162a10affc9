"""Job graphs as text: YAML, which includes JSON."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

_BOOL = "tag:yaml.org,2002:bool"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
MOST_PARTS = 200_000
"""Keys, values and items of a document."""


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
    """Parse `text`. Raises `NotYaml`, also where aliases make far more of the text than it is."""
    try:
        loader = GraphLoader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            _check_size(root)
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise NotYaml(_where(error)) from error


def _check_size(root: yaml.Node) -> None:
    """Raise `NotYaml` if the document has too many parts, each counted as often as aliases name it.
    A few lines of aliases of aliases stand for more than any memory can hold.
    """
    sizes: dict[int, int] = {}
    under_way: set[int] = set()

    def size_of(node: yaml.Node) -> int:
        key = id(node)
        if key in under_way:
            raise NotYaml("an alias names the part of the document that it is in")
        if key not in sizes:
            under_way.add(key)
            sizes[key] = 1 + sum(size_of(part) for part in _parts(node))
            under_way.remove(key)
            if sizes[key] > MOST_PARTS:
                raise NotYaml(f"with its aliases the document has more than {MOST_PARTS} parts")
        return sizes[key]

    size_of(root)


def _parts(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value


def _where(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return f"{error.problem}, line {mark.line + 1}, column {mark.column + 1}"
    return " ".join(str(error).split()) or type(error).__name__
