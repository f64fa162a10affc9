"""Answers questions about the state in a checkpoint or savepoint."""

from collections.abc import Iterator, Sequence
from typing import Any

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.key_groups import Layout
from jobmanager.core.snapshots.manifest import RegionManifest
from jobmanager.protocol.inspection import (
    CountKeyGroups,
    KeyGroupCount,
    KeyGroupCounts,
    ListStates,
    Place,
    ReadRows,
    Rows,
    StateColumn,
    StateDescription,
    StateRef,
    StateRow,
    States,
)
from taskrunner.core.state_names import NamedState
from taskrunner.core.state_view import Column
from taskrunner.snapshots.copies import Copies, Copy
from taskrunner.spark.session.session import Session
from taskrunner.spark.state.group_reader import GroupReader
from taskrunner.spark.state.state_reader import StateReader, states_of


class UnknownState(Exception):
    """The snapshot has no such state; the message lists the existing states."""


class StateDesk:
    def __init__(self, spark: Session, copies: Copies) -> None:
        self._spark = spark
        self._copies = copies

    def list_states(self, asked: ListStates) -> States:
        copy = self._copy(asked.place)
        graph = _graph(asked.place.graph)
        return States(
            states=[
                self._description(copy, region, state, graph)
                for region, manifest in copy.manifest.regions.items()
                for state in self._states(copy, region, manifest, graph)
            ]
        )

    def read_rows(self, asked: ReadRows) -> Rows:
        reader = self._reader(asked.place, asked.state)
        page = reader.page(asked.key, asked.subtask, asked.skip, asked.limit)
        rows = [
            StateRow(key=one.key, value=one.value, key_group=one.key_group, subtask=one.partition)
            for one in page.rows
        ]
        subtask, skip = page.next or (None, 0)
        return Rows(rows=rows, next_subtask=subtask, next_skip=skip)

    def count_key_groups(self, asked: CountKeyGroups) -> KeyGroupCounts:
        counted = self._reader(asked.place, asked.state).count_groups()
        return KeyGroupCounts(
            max_parallelism=self._copy(asked.place).manifest.max_parallelism,
            groups=[
                KeyGroupCount(
                    key_group=one.key_group, subtask=one.partition, rows=one.rows, bytes=one.bytes
                )
                for one in counted
            ],
        )

    def _copy(self, place: Place) -> Copy:
        return self._copies.of(place.root, place.manifest)

    def _reader(self, place: Place, wanted: StateRef) -> StateReader | GroupReader:
        copy, graph = self._copy(place), _graph(place.graph)
        region = RegionId(wanted.region)
        manifest = copy.manifest.regions.get(region)
        states = self._states(copy, region, manifest, graph) if manifest else []
        for state in states:
            if (state.vertex, state.name) == (wanted.vertex, wanted.name):
                return self._reader_of(copy, region, state, graph)
        known = ", ".join(f"{one.vertex}/{one.name}" for one in states) or "none"
        raise UnknownState(
            f"there is no state {wanted.vertex}/{wanted.name} in region {region}; there is: {known}"
        )

    def _states(
        self, copy: Copy, region: RegionId, manifest: RegionManifest, graph: JobGraph | None
    ) -> list[NamedState]:
        if manifest.batch is None or not manifest.pointers:
            return []
        keyed = tuple(keyed_of(region, manifest, graph))
        return states_of(self._spark, copy.region(region), keyed)

    def _reader_of(
        self, copy: Copy, region: RegionId, state: NamedState, graph: JobGraph | None
    ) -> StateReader | GroupReader:
        manifest = copy.manifest.regions[region]
        assert manifest.batch is not None
        vertex = _vertex(graph, state.vertex)
        place, subtasks = copy.region(region), _subtasks(manifest, state.vertex)
        if vertex is not None and vertex.state_layout is Layout.GROUPED:
            return GroupReader(self._spark, place, manifest.batch, state, vertex, subtasks)
        return StateReader(
            self._spark,
            place,
            manifest.batch,
            state,
            vertex,
            subtasks,
            copy.manifest.max_parallelism,
        )

    def _description(
        self, copy: Copy, region: RegionId, state: NamedState, graph: JobGraph | None
    ) -> StateDescription:
        view = self._reader_of(copy, region, state, graph).view
        return StateDescription(
            region=region,
            vertex=state.vertex,
            name=state.name,
            operator=state.operator_name,
            subtasks=_subtasks(copy.manifest.regions[region], state.vertex),
            key=list(_columns(view.key)),
            value=list(_columns(view.value)),
        )


def keyed_of(
    region: RegionId, manifest: RegionManifest, graph: JobGraph | None
) -> Sequence[VertexId]:
    """The keyed vertex of each of Spark's stateful operators.

    The manifest names each vertex once, in Spark's order. Only the graph shows that a vertex occurs
    twice; it may be of a later revision, so it is used only if it agrees with the manifest.
    """
    named = list(dict.fromkeys(pointer.vertex for pointer in manifest.pointers))
    if graph is not None and _vertex(graph, VertexId(region)) is not None:
        planned = spark_order.keyed(graph, VertexId(region))
        if list(dict.fromkeys(planned)) == named:
            return planned
    return named


def _subtasks(manifest: RegionManifest, vertex: VertexId) -> int:
    return len({pointer.subtask for pointer in manifest.pointers if pointer.vertex == vertex})


def _graph(document: dict[str, Any]) -> JobGraph | None:
    """The job graph, which is used to name columns; state can be read without it."""
    try:
        return graph_document.parse(document)
    except InvalidJobGraph:
        return None


def _vertex(graph: JobGraph | None, vertex: VertexId) -> Vertex | None:
    vertices = graph.vertices if graph is not None else ()
    return next((one for one in vertices if one.id == vertex), None)


def _columns(columns: Sequence[Column]) -> Iterator[StateColumn]:
    for one in columns:
        yield StateColumn(name=one.name, type=one.type, spark_name=one.spark_name)
