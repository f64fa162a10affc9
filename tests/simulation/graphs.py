"""The simulated job graphs: real documents, read once by the real reader."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.plan.job_plan import Region, plan_of
from tests.simulation.stream import MAX_PARALLELISM

BOUNDED_ROWS = 12


@dataclass(frozen=True, slots=True)
class Variant:
    """What schedules differ in."""

    regions: int = 1
    is_held: bool = False
    """Output is visible when its checkpoint has completed."""
    is_bounded: bool = False
    retained: int = 1
    tolerable_failures: int = 2
    is_unfenced: bool = False
    """Sinks are users' code, which nobody can hold back."""
    owner: str | None = None
    """In `meta`: an upgrade that changes nothing else stops nothing."""

    @property
    def ends_with_checkpoint(self) -> bool:
        """Whether the last output waits for the final checkpoint."""
        return self.is_bounded and self.is_held and not self.is_unfenced


@dataclass(frozen=True, slots=True)
class Simulated:
    variant: Variant
    document: Mapping[str, Any]
    graph: JobGraph
    regions: tuple[Region, ...]


@cache
def simulated(variant: Variant) -> Simulated:
    document = _document(variant)
    graph = graph_document.parse(document)
    return Simulated(variant, document, graph, plan_of(graph).regions)


def _document(variant: Variant) -> dict[str, Any]:
    source: dict[str, Any] = {
        "id": "numbers",
        "op": "source",
        "connector": "generator",
        "rows_per_second": 1,
        "columns": {"k": "id"},
    }
    if variant.is_bounded:
        source["rows"] = BOUNDED_ROWS
    vertices = [source]
    for letter in "ab"[: variant.regions]:
        vertices += [
            {
                "id": f"count_{letter}",
                "op": "aggregate",
                "inputs": ["numbers"],
                "key": ["k"],
                "aggregate": {"n": "count(*)"},
            },
            {
                "id": f"out_{letter}",
                "op": "sink",
                "inputs": [f"count_{letter}"],
                **_connector(variant, letter),
            },
        ]
    return {
        "name": "counting",
        **({"meta": {"owner": variant.owner}} if variant.owner else {}),
        "parallelism": 2,
        "max_parallelism": MAX_PARALLELISM,
        "checkpointing": {
            "interval": "4s",
            "timeout": "20s",
            "retained": variant.retained,
            "tolerable_failures": variant.tolerable_failures,
        },
        "restart": {"strategy": "fixed_delay", "attempts": 50, "delay": "1s"},
        "vertices": vertices,
    }


def _connector(variant: Variant, letter: str) -> dict[str, Any]:
    if variant.is_unfenced:
        return {"connector": "python", "class": "json:JSONEncoder"}  # which is never imported
    return {
        "connector": "files",
        "format": "parquet",
        "path": f"out/{letter}",
        "visibility": "checkpoint" if variant.is_held else "batch",
    }
