"""No two classes of the two programs share a name: a reader finds a class by its name alone."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "jobmanager" / "client" / "answers.py"
"""The shapes of the API once more, for clients, under the names of the OpenAPI document."""


def test_no_two_classes_share_a_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for program in ("jobmanager", "taskrunner"):
        for path in sorted((ROOT / program).rglob("*.py")):
            if path == GENERATED:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(ROOT)))

    assert {name: places for name, places in found.items() if len(places) > 1} == {}
