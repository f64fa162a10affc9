"""Python packages that only some connectors need."""

from importlib import import_module
from typing import Any


class PackageMissing(Exception):
    """A connector needs a Python package that is not installed where the runner is."""


def imported(module: str, extra: str) -> Any:
    """Imports a module of a package that comes with an extra of ours. Raises `PackageMissing`."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise PackageMissing(
            f"the Python package {package} cannot be imported where the runner is ({error}): "
            f"install it with `pip install 'headgate[{extra}]'` and restart the job"
        ) from error
