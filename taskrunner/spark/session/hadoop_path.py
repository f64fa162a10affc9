"""Paths as Spark and Hadoop take them."""

from collections.abc import Mapping
from pathlib import Path

WITHOUT_PATTERNS: Mapping[str, str] = {"__globPaths__": "false"}
"""For a reader of named files: a file's name is not a pattern, whatever characters are in it."""


def hadoop_path(path: Path) -> str:
    """Hadoop decodes nothing in the text of a path: of `file:///my%20data`, which `Path.as_uri`
    gives for a directory `my data`, it makes a directory with a percent sign in its name.
    """
    return f"file://{path.absolute()}"
