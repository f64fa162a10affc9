"""An artifact: a Python file, a zip or a wheel that jobs name. Its id is the hash of its
content.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from io import BytesIO
from pathlib import PurePosixPath

from jobmanager.core.errors import InvalidArtifact
from jobmanager.core.graph.module_names import ModuleNames, names_in
from jobmanager.core.ids import ArtifactId

MOST_BYTES = 64 * 1024 * 1024
"""Of one artifact."""
MOST_SOURCE_BYTES = 128 * 1024 * 1024
"""At most so much Python text is in an artifact, unpacked."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}\.(py|zip|whl)")
_ID = re.compile(r"[0-9a-f]{64}")
_COMPILED = (".so", ".pyd", ".dylib")


@dataclass(frozen=True, slots=True)
class Artifact:
    id: ArtifactId
    name: str
    bytes: int
    modules: Mapping[str, ModuleNames]
    """Each importable module of the artifact, by its dotted name."""
    uploaded_at: datetime


@dataclass(frozen=True, slots=True)
class FoundArtifact:
    """The file of an artifact in storage."""

    path: str
    """A URI."""
    bytes: int
    changed_at: datetime


def id_of(content: bytes) -> ArtifactId:
    return ArtifactId(sha256(content).hexdigest())


def is_id(text: str) -> bool:
    """Whether `text` is the id of an artifact, and not a name or a path."""
    return _ID.fullmatch(text) is not None


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def check_name(name: str) -> None:
    """Check an artifact's name. Raises `InvalidArtifact`."""
    if not is_name(name):
        raise InvalidArtifact(
            f"{name!r} is not the name of an artifact: letters, digits, '_', '-', '+' and '.', "
            "and .py, .zip or .whl at its end"
        )
    if name.endswith(".py") and not name.removesuffix(".py").isidentifier():
        raise InvalidArtifact(
            f"{name!r} cannot be imported: {name.removesuffix('.py')!r} is not a Python name"
        )


def read(name: str, content: bytes) -> Mapping[str, ModuleNames]:
    """Return the modules of an artifact. Raises `InvalidArtifact` if jobs could not use it."""
    check_name(name)
    if not content:
        raise InvalidArtifact(f"{name} is empty")
    if not name.endswith(".py"):
        return _of_zip(name, content)
    found = names_in(content)
    if found.error is not None:
        raise InvalidArtifact(f"{name} is not Python: {found.error}")
    return {name.removesuffix(".py"): found}


def _of_zip(name: str, content: bytes) -> Mapping[str, ModuleNames]:
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            modules = dict(_modules(name, archive))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise InvalidArtifact(f"{name} is not a zip file that can be read: {error}") from error
    if not modules:
        raise InvalidArtifact(
            f"{name} has no Python module: its packages have to be at the top of the zip"
        )
    return modules


def _modules(name: str, archive: zipfile.ZipFile) -> Iterator[tuple[str, ModuleNames]]:
    size = 0
    for info in archive.infolist():
        path = PurePosixPath(info.filename)
        if path.suffix in _COMPILED:
            raise InvalidArtifact(
                f"{name} has compiled code ({path.name}), which Python cannot import from a zip: "
                "install the package where runners run"
            )
        if path.suffix != ".py":
            continue
        size += info.file_size
        if size > MOST_SOURCE_BYTES:
            raise InvalidArtifact(f"{name} unpacks to more than {MOST_SOURCE_BYTES} bytes")
        parts = path.parts[:-1] if path.name == "__init__.py" else (*path.parts[:-1], path.stem)
        if parts and all(part.isidentifier() for part in parts):
            yield ".".join(parts), names_in(archive.read(info))
