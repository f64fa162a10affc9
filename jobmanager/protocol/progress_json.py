"""Progress as JSON: on the wire, in the database, and for web pages.

What a newer program reported or stored is read as far as this program knows it: unknown fields are
ignored, and a value of an unknown kind is left out.
"""

from collections.abc import Sequence
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import BeforeValidator, TypeAdapter

from jobmanager.core.progress import AccumulatorValue, RegionProgress, RestoredRegion

_MERGES = get_args(get_type_hints(AccumulatorValue)["merge"])
_ORIGINS = get_args(get_type_hints(RestoredRegion)["origin"])


def _readable_progress(regions: Any) -> Any:
    """Leave out accumulators that are merged in a way that this program does not know."""
    if not isinstance(regions, list):
        return regions
    return [
        {**one, "accumulators": {vertex: _mergeable(found) for vertex, found in values.items()}}
        if isinstance(one, dict) and isinstance(values := one.get("accumulators"), dict)
        else one
        for one in regions
    ]


def _mergeable(accumulators: Any) -> Any:
    if not isinstance(accumulators, dict):
        return accumulators
    return {
        name: value
        for name, value in accumulators.items()
        if not isinstance(value, dict) or value.get("merge") in _MERGES
    }


def readable_restored(regions: Any) -> Any:
    """Leave out regions that were restored from something that this program does not know."""
    if not isinstance(regions, list):
        return regions
    return [one for one in regions if not isinstance(one, dict) or one.get("origin") in _ORIGINS]


ReadableProgress = Annotated[list[RegionProgress], BeforeValidator(_readable_progress)]
_PROGRESS: TypeAdapter[list[RegionProgress]] = TypeAdapter(ReadableProgress)
_RESTORED: TypeAdapter[list[RestoredRegion]] = TypeAdapter(
    Annotated[list[RestoredRegion], BeforeValidator(readable_restored)]
)


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
