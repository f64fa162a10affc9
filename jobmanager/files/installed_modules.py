"""Looks up installed modules without importing them.

Runners are started with the same interpreter, so they find the same modules.
"""

import importlib.machinery
import importlib.util
from pathlib import Path

from jobmanager.core.graph.module_names import ModuleNames, names_in

_ANYTHING = ModuleNames(is_open=True)
"""The names of a module without source text, which is built in or compiled: unknown."""


def installed_module(name: str) -> ModuleNames | None:
    """Return the names of an installed module; None: no module of that name is installed."""
    top, *inner = name.split(".")
    try:
        # only for a name without dots: otherwise Python would import the package
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return None
    for part in inner:
        if spec is None or spec.submodule_search_locations is None:
            return None
        places = list(spec.submodule_search_locations)
        spec = importlib.machinery.PathFinder.find_spec(part, places)
    return _names_of(spec) if spec is not None else None


def _names_of(spec: importlib.machinery.ModuleSpec) -> ModuleNames:
    origin = spec.origin
    if origin is None or not origin.endswith(".py"):
        return _ANYTHING
    try:
        return names_in(Path(origin).read_bytes())
    except OSError:
        return _ANYTHING
