"""Names functions and classes of a program for a job graph, and finds the files they are in."""

import inspect
import sys
import sysconfig
from pathlib import Path
from typing import Any

from jobmanager.client.errors import HeadgateError

_INSTALLED = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")
)


def reference(function: Any) -> str:
    """Return `module:name` of a function or class; a text is returned as it is."""
    if isinstance(function, str):
        return function
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):
        raise HeadgateError(f"{function!r} is neither a function nor a class")
    if "<" in name:
        raise HeadgateError(
            f"{name} cannot be named in a job graph: define it at the top of its module"
        )
    return f"{_module_name(module)}:{name}"


def file_of(function: Any) -> Path | None:
    """Return what has to be uploaded for a function: a module's file, or a package's directory.
    None: it is installed where runners run, or was given as a text.
    """
    if isinstance(function, str):
        return None
    try:
        file = Path(inspect.getfile(function)).resolve()
    except (TypeError, OSError) as error:
        raise HeadgateError(f"{function!r} is in no file that could be uploaded") from error
    if any(file.is_relative_to(place) for place in _INSTALLED):
        return None
    depth = _module_name(function.__module__).count(".")
    if depth == 0 and file.name != "__init__.py":
        return file
    return file.parents[depth if file.name == "__init__.py" else depth - 1]


def _module_name(module: str) -> str:
    """Return a module's name; the main program is named after its file, as runners import it."""
    if module != "__main__":
        return module
    main = getattr(sys.modules["__main__"], "__file__", None)
    if main is None:
        raise HeadgateError(
            "a function defined in an interactive session has no file to upload: put it into a file"
        )
    return Path(main).stem
