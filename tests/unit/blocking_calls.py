"""Finds calls that block, such as `shutil.rmtree`, in what the event loop runs: `async` functions,
and functions of the same module that they call. What is handed over to a thread is not called
there, and is not found.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FUNCTIONS = {
    "": {"open"},
    "durable": {"create", "link", "sha256", "sync", "write"},
    "hashlib": {"file_digest"},
    "os": {"fsync", "listdir", "makedirs", "remove", "rename", "replace", "scandir", "walk"},
    "processes": {"find", "kill_all_of", "last_line"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "rmtree"},
    "subprocess": {"call", "check_call", "check_output", "Popen", "run"},
    "time": {"sleep"},
}
_METHODS = {"iterdir", "mkdir", "read_bytes", "read_text", "rglob", "rmdir", "touch", "unlink"} | {
    "write_bytes",
    "write_text",
}
"""Of a path, whatever the variable is called."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class BlockingCall:
    module: str
    function: str
    """The `async` function that the event loop is in."""
    call: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.call}, called by async {self.function}"


def blocking_calls(path: Path, module: str) -> list[BlockingCall]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [one for one in ast.walk(tree) if isinstance(one, Function)]
    return [
        BlockingCall(module, function.name, _name(call), call.lineno)
        for function in functions
        if isinstance(function, ast.AsyncFunctionDef)
        for call in _reached(function, functions, frozenset())
    ]


def _reached(
    function: Function, functions: list[Function], seen: frozenset[Function]
) -> Iterator[ast.Call]:
    for call in _calls(function):
        whose, _, what = _name(call).rpartition(".")
        if what in _METHODS or what in _FUNCTIONS.get(whose, ()):
            yield call
        for own in functions:
            is_called = own.name == what and whose in ("", "self")
            if is_called and isinstance(own, ast.FunctionDef) and own not in seen:
                yield from _reached(own, functions, seen | {own})


def _calls(function: Function) -> Iterator[ast.Call]:
    """The calls of a function itself: not of functions and lambdas that are made in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting.extend(ast.iter_child_nodes(node))


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)
