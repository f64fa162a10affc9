"""Use cases about keyed state: list states, the rows of a key, all rows, key groups.

Answers come from a completed checkpoint or from a savepoint, and name it. The inspector reads the
state, outside of any transaction. Retention may delete a checkpoint before the inspector has read
it; then the newest checkpoint is read instead.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from jobmanager.core.errors import (
    DomainError,
    InspectorUnavailable,
    InvalidStateKey,
    MalformedRequest,
    NoStateYet,
    StateNotFound,
    UnreadableState,
    UnusableRestorePoint,
)
from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.ids import CheckpointNumber, JobId, SavepointId
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.protocol.inspection import (
    AnswerBody,
    CountKeyGroups,
    KeyGroupCounts,
    ListStates,
    Place,
    QuestionBody,
    ReadRows,
    Refusal,
    Rows,
    StateRef,
    States,
    Tried,
    TryGraph,
)
from jobmanager.services.directives import RunSettings
from jobmanager.services.ports.inspection import Inspector
from jobmanager.services.ports.storage import SnapshotStorage
from jobmanager.services.ports.unit_of_work import UnitsOfWork

TIME_FOR_AN_ANSWER = timedelta(minutes=2)
_TRIES = 3


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The snapshot that is read: a completed checkpoint, or a savepoint."""

    name: str
    place: Place
    manifest: Manifest
    checkpoint: int
    savepoint: str | None
    completed_at: datetime


FindSnapshot = Callable[[int | None], Awaitable[StateSnapshot]]
"""Finds the snapshot to read; with a number, exactly that checkpoint."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a scan continues. A scan stays in the checkpoint in which it began."""

    checkpoint: int | None = None
    subtask: int = 0
    skip: int = 0

    @classmethod
    def parse(cls, text: str | None) -> "Cursor":
        if text is None:
            return cls()
        parts = text.split(".")
        if len(parts) != 3 or not all(one.isdecimal() and len(one) < 19 for one in parts):
            raise MalformedRequest(
                f"cursor {text!r} is not a cursor: use the value of `next` in the previous answer"
            )
        return cls(*(int(one) for one in parts))

    def __str__(self) -> str:
        return f"{self.checkpoint}.{self.subtask}.{self.skip}"


@dataclass(frozen=True, slots=True)
class StatePage:
    state: StateRef
    rows: Rows
    next: str | None


@dataclass(frozen=True, slots=True)
class StateChoice:
    """The state that a request names; the region is needed if a vertex is in several regions."""

    vertex: str
    name: str
    region: str | None = None


class StateService:
    """The queries about the state of a job or of a savepoint."""

    def __init__(
        self,
        units: UnitsOfWork,
        storage: SnapshotStorage,
        inspector: Inspector,
        settings: RunSettings,
    ) -> None:
        self._units = units
        self._storage = storage
        self._inspector = inspector
        self._settings = settings

    def of_job(self, job_id: JobId) -> FindSnapshot:
        async def find(number: int | None) -> StateSnapshot:
            return await self._checkpoint(job_id, number)

        return find

    def of_savepoint(self, savepoint_id: SavepointId) -> FindSnapshot:
        async def find(number: int | None) -> StateSnapshot:
            return await self._savepoint(savepoint_id)

        return find

    async def list_states(self, find: FindSnapshot) -> tuple[StateSnapshot, States]:
        def question(found: StateSnapshot) -> ListStates:
            _vertices(found)
            return ListStates(place=found.place)

        return await self._ask(find, None, question, States)

    async def read_rows(
        self, find: FindSnapshot, choice: StateChoice, key: str | None, cursor: Cursor, limit: int
    ) -> tuple[StateSnapshot, StatePage]:
        def question(found: StateSnapshot) -> ReadRows:
            return ReadRows(
                place=found.place,
                state=_state(found, choice),
                key=key,
                subtask=cursor.subtask,
                skip=cursor.skip,
                limit=limit,
            )

        found, rows = await self._ask(find, cursor.checkpoint, question, Rows)
        state = _state(found, choice)
        if key is not None and not rows.rows and cursor.checkpoint is None:
            raise StateNotFound(
                f"{state.vertex}/{state.name} has no rows of key {key!r} in {found.name}"
            )
        following = None
        if rows.next_subtask is not None:
            following = str(Cursor(found.checkpoint, rows.next_subtask, rows.next_skip))
        return found, StatePage(state, rows, following)

    async def count_key_groups(
        self, find: FindSnapshot, choice: StateChoice
    ) -> tuple[StateSnapshot, StateRef, KeyGroupCounts]:
        def question(found: StateSnapshot) -> CountKeyGroups:
            return CountKeyGroups(place=found.place, state=_state(found, choice))

        found, counts = await self._ask(find, None, question, KeyGroupCounts)
        return found, _state(found, choice), counts

    async def try_graph(
        self,
        job_id: JobId,
        document: Mapping[str, Any],
        parallelism: int,
        settings: RunSettings,
    ) -> Tried:
        """Let Spark try another graph on the newest checkpoint. Raises `NoStateYet`."""

        async def find(number: int | None) -> StateSnapshot:
            return await self._checkpoint(job_id, number, needs_state=False)

        def question(found: StateSnapshot) -> TryGraph:
            return TryGraph(
                place=found.place,
                graph=dict(document),
                parallelism=parallelism,
                data_root=settings.data_root,
                storage=settings.storage,
                allowed_paths=settings.path_roots,
            )

        _, tried = await self._ask(find, None, question, Tried)
        return tried

    async def _ask(
        self,
        find: FindSnapshot,
        number: int | None,
        question: Callable[[StateSnapshot], QuestionBody],
        wanted: type["Wanted"],
    ) -> tuple[StateSnapshot, "Wanted"]:
        """Ask about the newest checkpoint; if it is deleted meanwhile, about the next newest."""
        error: DomainError | None = None
        for _ in range(_TRIES):
            try:
                found = await find(number)
            except UnreadableState as unreadable:
                error = unreadable
                continue
            answer = await self._inspector.ask(question(found), TIME_FOR_AN_ANSWER)
            if isinstance(answer, wanted):
                return found, answer
            error = _error_of(answer)
            if not isinstance(error, NoStateYet):
                break
        assert error is not None
        raise error

    async def _checkpoint(
        self, job_id: JobId, number: int | None, *, needs_state: bool = True
    ) -> StateSnapshot:
        async with self._units() as uow:
            stored = await uow.jobs.get(job_id)
            if needs_state:
                _require_state(stored.graph, f"job {job_id.hex}")
            restorable = await uow.checkpoints.restorable(job_id)
            if number is not None and number not in restorable:
                raise NoStateYet(
                    f"checkpoint {number} of job {job_id.hex} has been deleted: "
                    "start the scan again, without a cursor"
                )
            if not restorable:
                raise NoStateYet(
                    f"job {job_id.hex} has no completed checkpoint yet: wait for the first or take "
                    f"one with POST /v1/jobs/{job_id.hex}/checkpoints"
                )
            chosen = CheckpointNumber(number) if number else max(restorable)
            checkpoint = (await uow.checkpoints.get(job_id, chosen)).checkpoint
        assert checkpoint.stored is not None
        assert checkpoint.ended_at is not None
        name = f"checkpoint {chosen} of job {job_id.hex}"
        root = self._settings.checkpoints_of(job_id)
        location = checkpoint.stored.manifest
        place = Place(root=root, manifest=location, graph=dict(stored.document))
        manifest = await self._read(root, location, name)
        return StateSnapshot(name, place, manifest, chosen, None, checkpoint.ended_at)

    async def _savepoint(self, savepoint_id: SavepointId) -> StateSnapshot:
        async with self._units() as uow:
            savepoint = await uow.savepoints.get(savepoint_id)
        name = f"savepoint {savepoint_id.hex}"
        if savepoint.status is not SavepointStatus.COMPLETED or savepoint.completed_at is None:
            raise NoStateYet(
                f"{name} is {savepoint.status}: only a completed savepoint can be read"
            )
        manifest = await self._read(savepoint.directory, layout.MANIFEST, name)
        document: Mapping[str, Any] = manifest.savepoint.graph if manifest.savepoint else {}
        place = Place(root=savepoint.directory, manifest=layout.MANIFEST, graph=dict(document))
        return StateSnapshot(
            name,
            place,
            manifest,
            savepoint.checkpoint,
            savepoint_id.hex,
            savepoint.completed_at,
        )

    async def _read(self, root: str, location: str, name: str) -> Manifest:
        try:
            return await self._storage.read_manifest(root, location)
        except UnusableRestorePoint as error:
            raise UnreadableState(f"{name}: {error}") from error


Wanted = TypeVar("Wanted", States, Rows, KeyGroupCounts, Tried)


def _require_state(graph: JobGraph, name: str) -> None:
    if graph.mode is Mode.BATCH:
        raise StateNotFound(f"{name} is a batch job: it keeps no state")
    if not any(vertex.is_keyed for vertex in graph.vertices):
        vertices = ", ".join(f"{vertex.id} ({vertex.op})" for vertex in graph.vertices)
        raise StateNotFound(f"{name} has no stateful vertices, only {vertices}")


def _vertices(found: StateSnapshot) -> dict[str, set[str]]:
    """Return the vertices that have state, by region. Raises if there are none."""
    regions = found.manifest.regions
    if all(region.batch is None for region in regions.values()):
        raise NoStateYet(f"{found.name} was taken before the first batch: take a new one")
    vertices = {
        str(name): {str(pointer.vertex) for pointer in region.pointers}
        for name, region in regions.items()
    }
    if not any(vertices.values()):
        raise StateNotFound(f"{found.name} has no state: its job has no stateful vertices")
    return vertices


def _state(found: StateSnapshot, choice: StateChoice) -> StateRef:
    """Return the chosen state. Raises `StateNotFound` with a list of the existing states."""
    vertices = _vertices(found)
    having = [name for name, inside in vertices.items() if choice.vertex in inside]
    if not having:
        known = ", ".join(sorted(set().union(*vertices.values())))
        raise StateNotFound(
            f"{found.name} has no state of vertex {choice.vertex!r}; it has state of {known}"
        )
    wanted = [name for name in having if choice.region in (None, name)]
    if len(wanted) != 1:
        raise StateNotFound(
            f"vertex {choice.vertex} has its state in region {' and in region '.join(having)}: "
            "choose one with ?region="
        )
    return StateRef(region=wanted[0], vertex=choice.vertex, name=choice.name)


def _error_of(answer: AnswerBody) -> DomainError:
    if not isinstance(answer, Refusal):
        return InspectorUnavailable(f"the inspector gave another answer: {answer.kind}")
    match answer.reason:
        case "unknown_state":
            return StateNotFound(answer.message)
        case "bad_key":
            return InvalidStateKey(answer.message)
        case "gone":
            return NoStateYet(f"{answer.message}: it was deleted meanwhile; ask again")
        case "unreadable" | "bad_graph" | "not_adoptable" | "not_readable" | "bad_script":
            return UnreadableState(answer.message)
        case "not_in_time" | "internal":
            return InspectorUnavailable(answer.message)
