"""URIs of storage.

Working directories of Spark are on a file system: a `file:` URI. Savepoints and checkpoints, which
have to outlive the machine, may be anywhere: `s3://bucket/savepoints`.
"""

import re
from pathlib import Path
from urllib.parse import unquote, urlparse

_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*://[^/].*")
_CHAINED = "::"
"""Schemes with which fsspec puts one file system on another: a cached copy is not durable."""


_ESCAPED = re.compile(r'[\s%#?"<>^`{|}\[\]\\]')
"""Characters that Hadoop writes as %20 and so on, and Spark's tools for state do not read back."""


class UnsupportedStorage(ValueError):
    """The storage is of a kind that cannot be used."""


def local_path(uri: str) -> Path:
    """Return the directory of a `file:` URI or a plain absolute path."""
    parsed = urlparse(uri)
    if parsed.scheme == "file" and parsed.netloc in ("", "localhost"):
        return Path(unquote(parsed.path))
    if not parsed.scheme and uri.startswith("/"):
        return Path(uri)
    raise UnsupportedStorage(
        f"storage {uri!r} cannot be used: Spark's working directories need a file: URI, "
        "such as file:///var/lib/headgate"
    )


def fault_of_working_directory(path: Path) -> str | None:
    """Return why Spark cannot keep state in the directory; None: it can."""
    found = _ESCAPED.search(str(path))
    if found is None:
        return None
    return (
        f"{path} has {found[0]!r} in its name, and Spark's tools for state cannot read such "
        "directories: choose another path (sources and sinks may be in such directories)"
    )


def is_local(uri: str) -> bool:
    """Whether the URI is one that `local_path` accepts."""
    return uri.startswith(("file:", "/"))


def scheme_of(uri: str) -> str:
    """Return the scheme: `s3` of `s3://bucket/x`. Raises `UnsupportedStorage` if there is none."""
    if is_local(uri):
        return "file"
    if _ELSEWHERE.fullmatch(uri) is None or _CHAINED in uri:
        raise UnsupportedStorage(
            f"{uri!r} is not a storage location: give an absolute path, or a URI such as "
            "file:///var/lib/headgate or s3://bucket/headgate"
        )
    return uri.partition("://")[0]


def normal(uri: str) -> str:
    """Normalise a storage location to a URI that does not end in a slash."""
    if is_local(uri):
        return local_path(uri).as_uri()
    scheme_of(uri)
    return uri.rstrip("/")


def below(root: str, *names: str) -> str:
    """Join names to the URI of the directory `root`."""
    return "/".join((root.rstrip("/"), *names))


def parent_and_name(uri: str) -> tuple[str, str]:
    """Split a URI into its parent directory and its name. Raises `UnsupportedStorage`."""
    if is_local(uri):
        path = local_path(uri)
        return path.parent.as_uri(), path.name
    scheme_of(uri)
    parent, _, name = uri.rstrip("/").rpartition("/")
    return parent, name
