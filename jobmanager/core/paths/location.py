"""A place that somebody named, in the one form in which places can be compared.

    /data/in/../out//x   file:///data/out/x   file:/data/out/x      file,  "",       /data/out/x
    s3://bucket/a/./b/                                               s3,    bucket,   /a/b
    socket://host:9999                                               socket, host:9999, /

Of files the text is read as the runner reads it: percent-encoding only in `file:` URIs, `..`
taken back by name. What `..` means behind a symbolic link only the file system knows, so whoever
asks resolves the place as well (`jobmanager.files.resolved_places`), and both have to be allowed.
Elsewhere names are bytes to the storage, and `..` in one is no step back: it is refused, and so is
percent-encoding, which one reader decodes and another does not.
"""

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

FILE = "file"
REMOTE_SCHEMES = ("hdfs", "s3a")
"""Of the file systems that sources and sinks of files can be on, beside those that are mounted."""
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_CHAINED = "::"
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f]|^\s|\s$")


class UnclearLocation(ValueError):
    """The text does not name one place; the message says why."""


@dataclass(frozen=True, slots=True)
class Location:
    """Two are equal if they are the same place by name."""

    scheme: str
    authority: str
    """The bucket, or the host and port; empty for files."""
    path: PurePosixPath
    """Absolute, without `.`, `..` and repeated slashes."""
    as_written: str = field(default="", compare=False)
    """Of a file: its path with each `..`, which may stand behind a symbolic link."""

    def __str__(self) -> str:
        if self.scheme == FILE:
            return str(self.path)
        inside = "" if self.path == PurePosixPath("/") else str(self.path)
        return f"{self.scheme}://{self.authority}{inside}"

    @property
    def is_file(self) -> bool:
        return self.scheme == FILE

    def contains(self, other: "Location") -> bool:
        """Whether `other` is this place or below it, by name."""
        is_same_store = (self.scheme, self.authority) == (other.scheme, other.authority)
        return is_same_store and other.path.is_relative_to(self.path)


def location_of(text: str, data_root: str) -> Location:
    """The place that a text means; a relative path is relative to `data_root`.

    Raises `UnclearLocation`.
    """
    if not text or _INVISIBLE.search(text):
        # one reader of URIs leaves them out, and another takes the text for a relative path
        raise UnclearLocation(f"{text!r} is empty, or has a control character or a space at an end")
    if _CHAINED in text:
        raise UnclearLocation(f"{text!r} puts one file system on another (::)")
    uri = _URI.fullmatch(text)
    if uri is None:
        return file_location(text if text.startswith("/") else f"{data_root}/{text}")
    if uri[1].lower() == FILE:
        return _of_file_uri(text)
    return _elsewhere(text, uri[1], uri[2])


def remote_location(text: str) -> Location | None:
    """The place on a remote file system that a text means; None: it is on a mounted file system.

    Raises `UnclearLocation`.
    """
    return location_of(text, "/") if text.partition(":")[0] in REMOTE_SCHEMES else None


def files_fault(text: str) -> str | None:
    """Why a text cannot be the path of a directory of files; None: it can."""
    scheme, colon, rest = text.partition(":")
    if not colon or scheme.lower() == FILE:
        return None
    if scheme in REMOTE_SCHEMES:
        try:
            location_of(text, "/")
        except UnclearLocation as error:
            return str(error)
        return None
    if not rest.startswith("//"):
        return None  # a relative path with a colon in its name
    known = "write s3a://" if scheme.lower() in ("s3", "s3n", "s3a") else "name a path or a URI"
    return (
        f"{text!r}: files on {scheme}: cannot be read or written: {known} "
        f"({', '.join(f'{one}://' for one in (FILE, *REMOTE_SCHEMES))})"
    )


def file_location(path: str) -> Location:
    """Of an absolute path."""
    return Location(FILE, "", _taken_back(path), as_written=path)


def _of_file_uri(text: str) -> Location:
    parsed = urlsplit(text)
    path = unquote(parsed.path)
    if parsed.netloc not in ("", "localhost"):
        raise UnclearLocation(f"{text!r} names a file of the host {parsed.netloc!r}")
    if parsed.query or parsed.fragment:
        raise UnclearLocation(f"{text!r} has a ? or a #: write %3F or %23 where one is in a name")
    if not path.startswith("/") or "\0" in path:
        raise UnclearLocation(f"{text!r} is not an absolute path: write file:///…")
    return file_location(path)


def _elsewhere(text: str, scheme: str, rest: str) -> Location:
    if not rest.startswith("//"):
        raise UnclearLocation(f"{text!r} is neither a path nor a URI such as s3://bucket/path")
    authority, _, path = rest[2:].partition("/")
    if not authority or "@" in authority:
        raise UnclearLocation(f"{text!r} does not name a bucket or host, or names a user in it")
    names = path.split("/")
    if ".." in names or "%" in path or "\\" in path:
        raise UnclearLocation(f"{text!r} has '..', '%' or a backslash in it: name the place itself")
    kept = [name for name in names if name not in ("", ".")]
    return Location(scheme, authority, PurePosixPath("/", *kept))


def _taken_back(path: str) -> PurePosixPath:
    kept: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del kept[-1:]
        elif name not in ("", "."):
            kept.append(name)
    return PurePosixPath("/", *kept)
