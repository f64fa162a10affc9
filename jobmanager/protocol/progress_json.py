"""Progress as JSON: on the wire, in the database, and for web pages."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from jobmanager.core.progress import RegionProgress, RestoredRegion

_PROGRESS = TypeAdapter(list[RegionProgress])
_RESTORED = TypeAdapter(list[RestoredRegion])


def progress_to_json(regions: Sequence[RegionProgress]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _PROGRESS.dump_python(list(regions), mode="json")
    return found


def progress_from_json(stored: Sequence[Any] | None) -> list[RegionProgress]:
    return _PROGRESS.validate_python(list(stored or ()))


def restored_to_json(regions: Sequence[RestoredRegion]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _RESTORED.dump_python(list(regions), mode="json")
    return found


def restored_from_json(stored: Sequence[Any] | None) -> list[RestoredRegion]:
    return _RESTORED.validate_python(list(stored or ()))
