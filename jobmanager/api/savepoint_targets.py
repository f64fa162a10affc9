"""The directory of a savepoint that a client asks for."""

import asyncio
from pathlib import Path

from jobmanager.api.context import ApiContext
from jobmanager.core.errors import UnsupportedRequest
from jobmanager.core.snapshots.layout import SAVEPOINTS
from jobmanager.core.snapshots.storage_uri import UnsupportedStorage, below, normal
from jobmanager.files.open_storage import require_shared
from jobmanager.services import path_checks


async def target_of(context: ApiContext, asked: str | None) -> str:
    """Return the URI of the savepoint's directory. A relative path is taken from the data root; by
    default the savepoint is in Headgate's storage. Raises `UnsupportedRequest` or
    `PathNotAllowed`.
    """
    if asked is None:
        return below(context.run_settings.storage, SAVEPOINTS)
    target = await _target(context, asked)
    await path_checks.require_for_snapshot(context.run_settings.paths, "target directory", target)
    return target


async def _target(context: ApiContext, asked: str) -> str:
    if "://" not in asked and not asked.startswith(("file:", "/")):
        return (Path(context.run_settings.data_root) / asked).as_uri()
    try:
        await asyncio.to_thread(require_shared, asked)  # which may load a driver
        return normal(asked)
    except (UnsupportedStorage, ValueError) as error:
        raise UnsupportedRequest(str(error)) from error
