"""An artifact: a Python file, a zip or a wheel that jobs name. Its id is the hash of its
content.
"""

import re
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import PurePosixPath
from typing import IO

from jobmanager.core.errors import ArtifactStoreFull, InvalidArtifact
from jobmanager.core.graph.module_names import ModuleNames, names_in
from jobmanager.core.ids import ArtifactId

MIB = 1024 * 1024
MOST_ENTRIES = 20_000
"""Of files and directories in a zip."""
MOST_UNPACKED_BYTES = 1024 * MIB
"""Of all files in a zip together."""
MOST_RATIO = 200
"""How many times larger a file in a zip may be than it is packed. Text packs to a tenth, repeated
text to a hundredth."""
MOST_SMALL_BYTES = 16 * MIB
"""A file in a zip up to this size may be packed as well as it can be."""
MOST_MODULE_BYTES = 4 * MIB
"""Of the text of one module: what Python makes of it to read it is a hundred times as large."""
MOST_SOURCE_BYTES = 64 * MIB
"""Of the text of all modules in a zip."""
Unpack = Callable[[zipfile.ZipFile, zipfile.ZipInfo], bytes]
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}\.(py|zip|whl)")
_ID = re.compile(r"[0-9a-f]{64}")
_COMPILED = (".so", ".pyd", ".dylib")


@dataclass(frozen=True)
class UploadLimits:
    """How much a server takes in of artifacts."""

    file_bytes: int = 64 * MIB
    """Of one artifact."""
    graph_bytes: int = 256 * MIB
    """Of all artifacts that one job graph names."""
    total_bytes: int = 10 * 1024 * MIB
    """Of all artifacts that the server keeps."""
    total_count: int = 10_000


@dataclass(frozen=True, slots=True)
class ReceivedArtifact:
    """A file that was sent, on disk and not yet kept."""

    id: ArtifactId
    bytes: int
    draft: str
    """Where it is."""


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


def check_total(limits: UploadLimits, count: int, total: int, more: int) -> None:
    """Raises `ArtifactStoreFull` where a server that keeps `count` artifacts of `total` bytes
    takes in no other of `more` bytes.
    """
    if count + 1 > limits.total_count:
        raise ArtifactStoreFull(
            f"the server keeps {count} artifacts, and {limits.total_count} at most: delete some "
            "that no job uses (headgate artifacts delete), or let the server keep more "
            "(HEADGATE_MOST_ARTIFACTS)"
        )
    if total + more > limits.total_bytes:
        raise ArtifactStoreFull(
            f"the server keeps {total} bytes of artifacts, {more} more would be above "
            f"{limits.total_bytes}: delete some that no job uses (headgate artifacts delete), or "
            "let the server keep more (HEADGATE_MOST_ARTIFACT_TOTAL_BYTES)"
        )


def read(name: str, content: IO[bytes], unpack: Unpack) -> Mapping[str, ModuleNames]:
    """The modules in an artifact. Raises `InvalidArtifact` where jobs could not use it. `unpack`
    returns an entry of a zip, and hardly more than the zip tells of its size.
    """
    check_name(name)
    if not name.endswith(".py"):
        return _of_zip(name, content, unpack)
    text = content.read(MOST_MODULE_BYTES + 1)
    if not text:
        raise InvalidArtifact(f"{name} is empty")
    _check_module_size(name, len(text))
    found = names_in(text)
    if found.error is not None:
        raise InvalidArtifact(f"{name} is not Python: {found.error}")
    return {name.removesuffix(".py"): found}


def _of_zip(name: str, content: IO[bytes], unpack: Unpack) -> Mapping[str, ModuleNames]:
    try:
        with zipfile.ZipFile(content) as archive:
            _check_entries(name, archive.infolist())
            modules = dict(_modules(name, archive, unpack))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise InvalidArtifact(f"{name} is not a zip file that can be read: {error}") from error
    if not modules:
        raise InvalidArtifact(
            f"{name} has no Python module: its packages have to be at the top of the zip"
        )
    return modules


def _modules(
    name: str, archive: zipfile.ZipFile, unpack: Unpack
) -> Iterator[tuple[str, ModuleNames]]:
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
        _check_module_size(f"{info.filename} in {name}", info.file_size)
        size += info.file_size
        if size > MOST_SOURCE_BYTES:
            raise InvalidArtifact(f"{name} has more than {MOST_SOURCE_BYTES} bytes of Python text")
        parts = path.parts[:-1] if path.name == "__init__.py" else (*path.parts[:-1], path.stem)
        if parts and all(part.isidentifier() for part in parts):
            yield ".".join(parts), names_in(_text_of(name, archive, info, unpack))


def _text_of(name: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo, unpack: Unpack) -> bytes:
    text = unpack(archive, info)
    if len(text) != info.file_size:
        raise InvalidArtifact(f"{info.filename} in {name} has another size than the zip tells")
    return text


def _check_entries(name: str, entries: list[zipfile.ZipInfo]) -> None:
    """Raises `InvalidArtifact` for what unpacks to far more than it is, or to somewhere else.

    Sizes are those that the zip tells; whoever unpacks a file of another size fails.
    """
    if len(entries) > MOST_ENTRIES:
        raise InvalidArtifact(f"{name} has {len(entries)} entries: {MOST_ENTRIES} at most")
    if (unpacked := sum(info.file_size for info in entries)) > MOST_UNPACKED_BYTES:
        raise InvalidArtifact(
            f"{name} unpacks to {unpacked} bytes: {MOST_UNPACKED_BYTES} at most; keep data in "
            "files that the job reads"
        )
    for info in entries:
        if fault := _entry_fault(info):
            raise InvalidArtifact(f"{name} has an entry {info.filename!r}, which {fault}")


def _entry_fault(info: zipfile.ZipInfo) -> str | None:
    path = PurePosixPath(info.filename)
    if path.is_absolute() or ".." in path.parts or "\\" in info.filename:
        return "leads out of the zip: pack it with relative names"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a symbolic link: pack the file itself"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is packed in a way that Python cannot import from: pack it with zip's own (deflate)"
    if info.file_size > MOST_SMALL_BYTES and info.file_size > MOST_RATIO * info.compress_size:
        return (
            f"is {info.file_size} bytes, packed into {info.compress_size}: more than {MOST_RATIO} "
            "times as large"
        )
    return None


def _check_module_size(what: str, size: int) -> None:
    if size > MOST_MODULE_BYTES:
        raise InvalidArtifact(
            f"{what} is a Python module of more than {MOST_MODULE_BYTES} bytes: keep data in files "
            "beside it"
        )
