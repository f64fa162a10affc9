"""From a URI to the files below it."""

from jobmanager.core.snapshots.storage_uri import (
    UnsupportedStorage,
    is_local,
    local_path,
    scheme_of,
)
from jobmanager.files.local_files import LocalFiles
from jobmanager.files.remote_files import RemoteFiles, require_driver
from jobmanager.files.snapshot_files import SnapshotFiles

_IN_ONE_PROCESS = "memory"


def open_files(uri: str) -> SnapshotFiles:
    """Raises `UnsupportedStorage` if it cannot be reached from here."""
    return LocalFiles(local_path(uri)) if is_local(uri) else RemoteFiles(uri)


def require_shared(uri: str) -> None:
    """Raises `UnsupportedStorage` if a server and its runners cannot both use it."""
    if scheme_of(uri) == _IN_ONE_PROCESS:
        raise UnsupportedStorage(
            f"{uri!r} cannot be used: it is the memory of one process, and ends with it"
        )
    if not is_local(uri):
        require_driver(uri)
