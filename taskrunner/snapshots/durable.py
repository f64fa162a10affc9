"""`jobmanager.files.durable`, under the name that the runner's modules import."""

from jobmanager.files.durable import (
    create,
    link_or_copy,
    make_directory,
    move,
    sha256,
    sync,
    sync_all,
    write,
)

__all__ = [
    "create",
    "link_or_copy",
    "make_directory",
    "move",
    "sha256",
    "sync",
    "sync_all",
    "write",
]
