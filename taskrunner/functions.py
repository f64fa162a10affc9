"""Finds user code by the name that a job graph gives it."""

import importlib
from typing import Any


class FunctionMissing(Exception):
    """The function or class that a vertex names cannot be imported."""


def load(reference: str) -> Any:
    """Imports what `"module:name"` names; the name may have dots. Raises `FunctionMissing`."""
    module_name, colon, name = reference.partition(":")
    if not (module_name and colon and name):
        raise FunctionMissing(f"{reference!r} is not of the form module:name")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # the module's own code runs, and may do anything
        raise FunctionMissing(
            f"{reference!r}: module {module_name!r} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise FunctionMissing(f"{reference!r}: module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    return found
