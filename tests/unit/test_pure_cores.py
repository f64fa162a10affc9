"""The two cores do nothing: what the import contracts of pyproject.toml cannot see.

A path is a fine name for a place, and `pathlib` is imported for that; but no core reads one. Nor
does a core ask for the time, or make an id: both are arguments.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORES = ("jobmanager/core", "taskrunner/core")
_BUILTINS = {"open", "print", "input", "breakpoint", "exec", "eval"}
_OF_PATHS = {
    *("absolute", "chmod", "cwd", "exists", "expanduser", "glob", "home", "is_dir", "is_file"),
    *("is_symlink", "iterdir", "lstat", "mkdir", "open", "read_bytes", "read_text", "readlink"),
    *("resolve", "rglob", "rmdir", "samefile", "stat", "symlink_to", "touch", "unlink", "walk"),
    *("write_bytes", "write_text"),
}
_OF_CLOCKS = {"now", "utcnow", "today"}
_NEW_IDS = {"uuid1", "uuid4", "uuid6", "uuid7"}
_METHODS = _OF_PATHS | _OF_CLOCKS | _NEW_IDS


def deeds(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each call that does, or looks at, something outside of the program."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in _BUILTINS | _NEW_IDS:
                yield node.lineno, name
            case ast.Call(func=ast.Attribute(attr=name)) if name in _METHODS:
                yield node.lineno, name


@pytest.mark.parametrize("core", CORES)
def test_a_core_decides_and_does_nothing(core: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {name}()"
        for file in sorted((ROOT / core).rglob("*.py"))
        for line, name in deeds(file.read_text(encoding="utf-8"))
    ]

    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "Path('x').read_text()",
        "open('x')",
        "datetime.now(UTC)",
        "job = uuid.uuid4()",
        "uuid4()",
        "def f(path):\n    return [one for one in path.iterdir() if one.is_file()]",
    ],
)
def test_a_deed_is_seen(source: str) -> None:
    assert list(deeds(source))
