"""Where storage is.

What Spark works in is on a file system: a `file:` URI. What has to outlive the machine,
savepoints and checkpoints, may be anywhere: `s3://bucket/savepoints`.
"""

import re
from pathlib import Path
from urllib.parse import unquote, urlparse

_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*://[^/].*")
_CHAINED = "::"
"""How fsspec puts one file system on another: a copy in a cache is not durable."""


class UnsupportedStorage(ValueError):
    """The storage is of a kind that cannot be used."""


def local_path(uri: str) -> Path:
    """The directory that a `file:` URI (or a plain absolute path) means."""
    parsed = urlparse(uri)
    if parsed.scheme == "file" and parsed.netloc in ("", "localhost"):
        return Path(unquote(parsed.path))
    if not parsed.scheme and uri.startswith("/"):
        return Path(uri)
    raise UnsupportedStorage(
        f"storage {uri!r} cannot be used: what Spark works in needs a file: URI, "
        "such as file:///var/lib/headgate"
    )


def is_local(uri: str) -> bool:
    """Whether `local_path` is for it."""
    return uri.startswith(("file:", "/"))


def scheme_of(uri: str) -> str:
    """`s3` of `s3://bucket/x`. Raises `UnsupportedStorage` where there is none."""
    if is_local(uri):
        return "file"
    if _ELSEWHERE.fullmatch(uri) is None or _CHAINED in uri:
        raise UnsupportedStorage(
            f"{uri!r} is not a storage location: give an absolute path, or a URI such as "
            "file:///var/lib/headgate or s3://bucket/headgate"
        )
    return uri.partition("://")[0]


def normal(uri: str) -> str:
    """The one way to write it: a URI that does not end in a slash."""
    if is_local(uri):
        return local_path(uri).as_uri()
    scheme_of(uri)
    return uri.rstrip("/")


def below(root: str, *names: str) -> str:
    """The URI of what has these names, one in the other, in the directory `root`."""
    return "/".join((root.rstrip("/"), *names))


def parent_and_name(uri: str) -> tuple[str, str]:
    """The directory that something is in, and its name there. Raises `UnsupportedStorage`."""
    if is_local(uri):
        path = local_path(uri)
        return path.parent.as_uri(), path.name
    scheme_of(uri)
    parent, _, name = uri.rstrip("/").rpartition("/")
    return parent, name
