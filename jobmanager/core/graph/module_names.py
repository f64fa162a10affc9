"""Reads the top-level names of a Python module from its text: the module is never imported."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModuleNames:
    """The top-level names of a module."""

    names: frozenset[str] = frozenset()
    is_open: bool = False
    """The module may have further names: it has `import *` or its own `__getattr__`."""
    error: str | None = None
    """Why the text is not Python; then there are no names."""

    def has(self, name: str) -> bool:
        return self.is_open or name in self.names


def names_in(text: str | bytes) -> ModuleNames:
    """Return the names that a module's text binds at its top level, under any condition."""
    try:
        return _names_of(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return ModuleNames(error=_in_one_line(error))


def _names_of(tree: ast.Module) -> ModuleNames:
    names: set[str] = set()
    is_open = False
    for statement in _statements(tree.body):
        bound = set(_bound(statement))
        is_open = is_open or "*" in bound
        names |= bound
    return ModuleNames(frozenset(names - {"*"}), is_open or "__getattr__" in names)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Return all statements that may run when the module is imported, also inside of `if`, `try`
    and `with`.
    """
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for inner in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, inner, ()))
        for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _statements(handler.body)


def _bound(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=aliases):
            for alias in aliases:
                yield alias.asname or alias.name.partition(".")[0]
        case ast.ImportFrom(names=aliases):
            for alias in aliases:
                yield alias.asname or alias.name
        case _:
            for node in _own_nodes(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the statement's own expressions, without the statements inside it."""
    ahead: list[ast.AST] = [statement]
    while ahead:
        node = ahead.pop()
        yield node
        ahead.extend(
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.stmt | ast.Lambda | ast.comprehension)
        )


def _in_one_line(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"line {error.lineno}: {error.msg}"
    return " ".join(str(error).split()) or type(error).__name__
