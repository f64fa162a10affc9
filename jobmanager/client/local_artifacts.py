"""Uploads artifacts of a graph that are files on this machine, and puts their ids in the graph."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import HeadgateError

_EPOCH = (1980, 1, 1, 0, 0, 0)


def uploaded(
    client: HeadgateClient, graph: Mapping[str, Any], directory: Path
) -> Mapping[str, Any]:
    """Return the graph with ids for those artifacts that are files on this machine, relative to
    `directory`. The other artifacts are resolved by the server: ids, names, and paths there.
    """
    named = graph.get("artifacts")
    if not isinstance(named, list):
        return graph
    uploaded = [_uploaded(client, one, directory) for one in named]
    return graph if uploaded == named else {**graph, "artifacts": uploaded}


def upload(client: HeadgateClient, path: Path) -> str:
    """Upload a file, or a package's directory as a zip, and return the artifact's id."""
    try:
        name, content = named_content(path)
    except OSError as error:
        raise HeadgateError(f"{path} cannot be read: {error.strerror or error}") from error
    return client.upload_artifact(name, content)["id"]


def named_content(path: Path) -> tuple[str, bytes]:
    """Return name and content of the artifact that a file, or a package's directory, becomes."""
    if path.is_dir():
        return f"{path.name}.zip", packed(path)
    return path.name, path.read_bytes()


def packed(package: Path) -> bytes:
    """Pack a package as a zip. The same files give the same bytes, because the hash is the id."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(package.parent).as_posix()
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())
    return made.getvalue()


def _uploaded(client: HeadgateClient, named: Any, directory: Path) -> Any:
    if not isinstance(named, str):
        return named
    path = directory / named
    return upload(client, path) if path.is_file() or path.is_dir() else named
