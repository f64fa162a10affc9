"""Opens the storage at a URI."""

from jobmanager.core.snapshots.storage_uri import (
    UnsupportedStorage,
    is_local,
    local_path,
    scheme_of,
)
from jobmanager.files.fsspec_storage import FsspecStorage, require_driver
from jobmanager.files.local_storage import LocalStorage
from jobmanager.files.storage_port import Storage

_IN_ONE_PROCESS = "memory"


def open_storage(uri: str) -> Storage:
    """Open the storage at `uri`. Raises `UnsupportedStorage` if no driver can reach it."""
    return LocalStorage(local_path(uri)) if is_local(uri) else FsspecStorage(uri)


def require_shared(uri: str) -> None:
    """Raise `UnsupportedStorage` if a server and its runners cannot both use the storage."""
    if scheme_of(uri) == _IN_ONE_PROCESS:
        raise UnsupportedStorage(
            f"{uri!r} cannot be used: it is the memory of one process, and ends with it"
        )
    if not is_local(uri):
        require_driver(uri)
