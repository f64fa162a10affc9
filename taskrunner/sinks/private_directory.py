"""Where the records and the staged files of an output directory are, out of readers' sight."""

from pathlib import PurePath
from typing import TypeVar

from taskrunner.sinks.output_files import LOCAL, OutputFiles

_INSIDE = ".headgate"
P = TypeVar("P", bound=PurePath)


def private_directory(directory: P, files: OutputFiles = LOCAL) -> P:
    """The directory with the records of all jobs that write into `directory`."""
    inside = directory / _INSIDE
    if files.is_directory(inside):
        return inside
    return directory.parent / f".{directory.name}{_INSIDE}"


def make_private_directory(directory: P, files: OutputFiles = LOCAL) -> P:
    """Makes the private directory before a job first writes into `directory`: next to it, or inside
    it if files cannot be renamed from its parent. Later jobs use the same private directory.
    """
    found = private_directory(directory, files)
    if not files.is_directory(found):
        if files.is_directory(directory) and not files.can_rename_into(directory):
            found = directory / _INSIDE
        files.make_directory(found)
    return found


def is_inside(directory: PurePath, private: PurePath) -> bool:
    return private == directory / _INSIDE
