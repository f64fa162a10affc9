"""Where storage is. Only `file:` URIs, in this version."""

from pathlib import Path
from urllib.parse import unquote, urlparse


class UnsupportedStorage(ValueError):
    """The storage is of a kind that this version cannot use."""


def local_path(uri: str) -> Path:
    """The directory that a `file:` URI (or a plain absolute path) means."""
    parsed = urlparse(uri)
    if parsed.scheme == "file" and parsed.netloc in ("", "localhost"):
        return Path(unquote(parsed.path))
    if not parsed.scheme and uri.startswith("/"):
        return Path(uri)
    raise UnsupportedStorage(
        f"storage {uri!r} cannot be used: this version of Headgate needs a file: URI, "
        "such as file:///var/lib/headgate"
    )
