"""A jar, in Flink's word: an uploaded file that can be run as a job.

A job graph (.json, .yaml), a PySpark program (.py), or a zip, wheel or jar of Python packages with
a job graph in it. Flink's clients upload it, list it, ask for its plan, run it and delete it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobmanager.core.errors import InvalidArtifact
from jobmanager.core.ids import ArtifactId

GRAPH_NAMES = ("job.yaml", "job.yml", "job.json")
"""The job graph at the top of a zip, the first of these that is there."""
YAML_SUFFIXES = (".yaml", ".yml")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}\.(py|zip|whl|jar|json|yaml|yml)", re.ASCII)
_ARGUMENT = re.compile(r"""[^\s"']+|"([^"]*)"|'([^']*)'""")


@dataclass(frozen=True, slots=True)
class Jar:
    id: str
    """A random id, `_`, and the file's name, as Flink makes it."""
    name: str
    uploaded_at: datetime
    graph: Mapping[str, Any] | None
    """None: the code is a program that makes a graph."""
    artifact: ArtifactId | None
    """The code; None: there is only a job graph."""
    brought_artifact: bool = False
    """Whether the code was not on the server before: then it goes with the jar."""


def check_name(name: str) -> None:
    """Check the name of an uploaded file. Raises `InvalidArtifact`."""
    if not _NAME.fullmatch(name):
        raise InvalidArtifact(
            f"{name!r} cannot be run: upload a job graph (.json, .yaml), a PySpark program (.py), "
            "or a .zip, .whl or .jar of Python packages with a job graph in it, named with "
            "letters, digits, '_', '-', '+' and '.'"
        )


def is_graph(name: str) -> bool:
    return name.endswith((".json", *YAML_SUFFIXES))


def artifact_name(name: str) -> str:
    """Return the name of the code as an artifact: a jar is a zip."""
    return f"{name.removesuffix('.jar')}.zip" if name.endswith(".jar") else name


def arguments_in(text: str) -> list[str]:
    """Split the text of program arguments at spaces, as Flink does; quotes hold spaces together."""
    return [
        next((one for one in found.groups() if one is not None), found[0])
        for found in _ARGUMENT.finditer(text)
    ]
