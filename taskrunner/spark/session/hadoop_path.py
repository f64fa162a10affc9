"""Paths as Spark and Hadoop take them."""

from pathlib import Path


def hadoop_path(path: Path) -> str:
    """Hadoop decodes nothing in the text of a path: of `file:///my%20data`, which `Path.as_uri`
    gives for a directory `my data`, it makes a directory with a percent sign in its name.
    """
    return f"file://{path.absolute()}"
