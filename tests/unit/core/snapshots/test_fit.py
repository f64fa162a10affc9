"""What fits a restore, by graph and by manifest. The API and the runner use the same function."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.snapshots.fit import (
    Fate,
    SavedState,
    drops_state,
    fit,
    state_in,
    state_of_graph,
)
from jobmanager.core.snapshots.manifest import Manifest, RegionManifest, StatePointer
from tests.support.builders import a_document, a_document_with

OUT = RegionId("out")


def graph(document: dict[str, Any] | None = None) -> JobGraph:
    return graph_document.parse(document or a_document())


def a_manifest(of: JobGraph, batch: int | None = 3) -> Manifest:
    """Of a checkpoint that a job with this graph took."""
    regions = {
        name: RegionManifest(
            batch,
            None,
            dict.fromkeys(kept.sources, 7),
            (),
            tuple(StatePointer(v, i, 1, "pool/x", 1) for v in kept.keyed for i in (0, 1)),
        )
        for name, kept in state_of_graph(of).regions.items()
    }
    return Manifest(
        JobId(UUID(int=1)),
        CheckpointNumber(1),
        AttemptNumber(1),
        datetime.now(UTC),
        "4.3.0",
        2,
        of.max_parallelism,
        regions,
    )


def both(of: JobGraph) -> list[SavedState]:
    """The state of a job, as an upgrade knows it, and as a savepoint does."""
    return [state_of_graph(of), state_in(a_manifest(of))]


def with_two_paths() -> dict[str, Any]:
    """The source is read along two paths."""
    document = a_document()
    document["vertices"][2:2] = [
        {"id": "small", "op": "filter", "inputs": ["bids"], "where": "price < 10"},
        {"id": "all", "op": "union", "inputs": ["big", "small"]},
    ]
    document["vertices"][4]["inputs"] = ["all"]
    return document


@pytest.mark.parametrize("document", [a_document(), with_two_paths()])
def test_a_graph_fits_its_own_state(document: dict[str, Any]) -> None:
    for state in both(graph(document)):
        found = fit(state, graph(document))
        assert found.faults(allow_non_restored_state=False) == []
        assert {one.fate for one in found.fates} == {Fate.KEPT}


def test_every_fault_is_told_at_once_with_its_place() -> None:
    after = a_document_with("bids", id="asks")
    after["max_parallelism"] = 360
    after["vertices"][1]["inputs"] = ["asks"]
    after["vertices"][2]["id"] = "costs"
    after["vertices"][3]["inputs"] = ["costs"]

    for state in both(graph()):
        found = fit(state, graph(after))
        assert [(one.vertex, one.field) for one in found.obstacles] == [
            (None, "max_parallelism"),
            ("out", "inputs"),
            ("out", "inputs"),
        ]
        [loss] = found.losses
        assert loss.message == (
            "region out: the state of vertex revenue would be left behind; "
            "set allow_non_restored_state if that is meant"
        )


def test_the_flag_waives_what_is_left_behind_and_nothing_else() -> None:
    without = a_document()
    del without["vertices"][2]
    without["vertices"][2]["inputs"] = ["big"]
    other_groups = a_document(max_parallelism=360)

    for state in both(graph()):
        lost, impossible = fit(state, graph(without)), fit(state, graph(other_groups))
        assert len(lost.faults(allow_non_restored_state=False)) == 1
        assert lost.faults(allow_non_restored_state=True) == []
        assert len(impossible.faults(allow_non_restored_state=True)) == 1


def test_a_source_that_is_read_once_more_is_seen_where_the_graph_before_is_known() -> None:
    [by_graph, by_manifest] = both(graph())

    assert len(fit(by_graph, graph(with_two_paths())).obstacles) == 1
    # a manifest names a source once; another number of sources Spark refuses by itself
    assert fit(by_manifest, graph(with_two_paths())).obstacles == []


def test_a_region_without_a_batch_has_nothing_that_could_be_lost() -> None:
    after = a_document_with("out", id="elsewhere")

    found = fit(state_in(a_manifest(graph(), batch=None)), graph(after))

    assert found.faults(allow_non_restored_state=False) == []
    assert {one.fate for one in found.fates} == {Fate.GAINED}


def test_a_batch_job_goes_on_from_no_state() -> None:
    batch = replace(graph(), mode=graph_document.parse(_a_batch_document()).mode)

    for state in both(graph()):
        assert [one.field for one in fit(state, batch).obstacles] == ["mode"]


def test_state_is_dropped_where_no_keyed_vertex_is_left() -> None:
    region = a_manifest(graph()).regions[OUT]
    without = a_document()
    del without["vertices"][2]
    without["vertices"][2]["inputs"] = ["big"]

    assert not drops_state(region, graph(), OUT)
    assert drops_state(region, graph(without), OUT)
    assert not drops_state(replace(region, pointers=()), graph(without), OUT)
    assert VertexId("revenue") in {one.vertex for one in region.pointers}


def _a_batch_document() -> dict[str, Any]:
    document = a_document(mode="batch")
    document["vertices"][0] = {
        "id": "bids",
        "op": "source",
        "connector": "table",
        "rows": [{"auction": 1, "price": 1, "ts": "2026-01-01T00:00:00Z"}],
        "schema": "auction INT, price INT, ts TIMESTAMP",
    }
    document["vertices"][2]["time"] = "ts"
    return document
