"""A job as an object: `JobHandle` of a `Client`, `AsyncJobHandle` of an `AsyncClient`.

    job = client.jobs["revenue"]
    job.wait(state="running")
    savepoint = job.stop()

Methods wait for the outcome, at most `timeout` seconds, and raise a `HeadgateError` if there is
none or another. Each method is written once, as a flow (`flows`).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)

from jobmanager.client import answers, flows, job_card, keyed_state
from jobmanager.client import operations as api
from jobmanager.client.api_call import ApiCall, describe
from jobmanager.client.errors import HeadgateError
from jobmanager.client.flows import Flow, Result, of_call
from jobmanager.client.keyed_state import StateOfVertex
from jobmanager.client.server_events import ServerEvent

if TYPE_CHECKING:
    import pyarrow

Given = ParamSpec("Given")
Subject = TypeVar("Subject")
SubjectOut = TypeVar("SubjectOut", covariant=True)


class FollowsFlows(Protocol):
    """What a handle needs of `Client`."""

    url: str

    def follow(self, flow: Flow[Result]) -> Result: ...

    def events(self, call: ApiCall[ServerEvent]) -> Iterator[ServerEvent]: ...

    def lines(self, call: ApiCall[Any]) -> Iterator[str]: ...


class AwaitsFlows(Protocol):
    """What a handle needs of `AsyncClient`."""

    url: str

    async def follow(self, flow: Flow[Result]) -> Result: ...

    def events(self, call: ApiCall[ServerEvent]) -> AsyncIterator[ServerEvent]: ...

    def lines(self, call: ApiCall[Any]) -> AsyncIterator[str]: ...


class About(Protocol[SubjectOut]):
    """An object of `Client` about something: a job by its id, a state by its place."""

    @property
    def _client(self) -> FollowsFlows: ...

    def _subject(self) -> SubjectOut: ...


class AsyncAbout(Protocol[SubjectOut]):
    @property
    def _client(self) -> AwaitsFlows: ...

    async def _subject(self) -> SubjectOut: ...


class FlowMethod(Generic[Subject, Given, Result]):
    """A method that drives a flow about the object's subject, and returns its result."""

    def __init__(self, flow: Callable[Concatenate[Subject, Given], Flow[Result]]) -> None:
        self._flow = flow
        describe(self, flow, skip=1)

    @overload
    def __get__(self, about: None, owner: type) -> "FlowMethod[Subject, Given, Result]": ...

    @overload
    def __get__(self, about: About[Subject], owner: type) -> Callable[Given, Result]: ...

    def __get__(
        self, about: About[Subject] | None, owner: type
    ) -> "FlowMethod[Subject, Given, Result] | Callable[Given, Result]":
        if about is None:
            return self
        found = about

        def called(*given: Given.args, **named: Given.kwargs) -> Result:
            return found._client.follow(self._flow(found._subject(), *given, **named))

        return _described(called, self)


class AsyncFlowMethod(Generic[Subject, Given, Result]):
    """A method that drives a flow about the object's subject, and is awaited."""

    def __init__(self, flow: Callable[Concatenate[Subject, Given], Flow[Result]]) -> None:
        self._flow = flow
        describe(self, flow, skip=1)

    @overload
    def __get__(self, about: None, owner: type) -> "AsyncFlowMethod[Subject, Given, Result]": ...

    @overload
    def __get__(
        self, about: AsyncAbout[Subject], owner: type
    ) -> Callable[Given, Awaitable[Result]]: ...

    def __get__(
        self, about: AsyncAbout[Subject] | None, owner: type
    ) -> "AsyncFlowMethod[Subject, Given, Result] | Callable[Given, Awaitable[Result]]":
        if about is None:
            return self
        found = about

        async def called(*given: Given.args, **named: Given.kwargs) -> Result:
            subject = await found._subject()
            return await found._client.follow(self._flow(subject, *given, **named))

        return _described(called, self)


def _described(called: Callable[Given, Result], method: Any) -> Callable[Given, Result]:
    made = update_wrapper(called, method._flow)
    del made.__wrapped__  # its signature has the subject, which is not the caller's
    made.__signature__ = method.__signature__  # type: ignore[attr-defined]
    return made


class JobHandle:
    """A job on a server."""

    def __init__(self, client: FollowsFlows, job_id: str) -> None:
        self.id = job_id
        self._client = client

    status = FlowMethod(of_call(api.get_job_status))
    graph = FlowMethod(of_call(api.get_job_graph))
    plan = FlowMethod(of_call(api.get_job_plan))
    history = FlowMethod(of_call(api.get_job_history))
    exceptions = FlowMethod(of_call(api.get_job_exceptions))
    checkpoints = FlowMethod(of_call(api.get_job_checkpoints))
    key_groups = FlowMethod(of_call(api.get_job_key_groups))
    operations = FlowMethod(of_call(api.get_job_operations))
    sink_rows = FlowMethod(of_call(api.get_job_sink_rows))
    wait = FlowMethod(flows.wait)
    checkpoint = FlowMethod(flows.checkpoint)
    savepoint = FlowMethod(flows.savepoint)
    stop = FlowMethod(flows.stop)
    rescale = FlowMethod(flows.rescale)
    plan_upgrade = FlowMethod(flows.plan_upgrade)
    upgrade = FlowMethod(flows.upgrade)
    cancel = FlowMethod(flows.cancel)
    pause = FlowMethod(flows.pause)
    resume = FlowMethod(flows.resume)

    @property
    def state(self) -> str:
        """Return the job's state: starting, running, stalled, finished, cancelled, failed …"""
        return self.status()["state"]

    @property
    def name(self) -> str:
        return str(self.graph()["graph"]["name"])

    @property
    def url(self) -> str:
        """Return the job's page on the dashboard."""
        return f"{self._client.url}/#/jobs/{self.id}"

    def events(self, after: int | None = None) -> Iterator[ServerEvent]:
        """Yield what happens to the job from now on, or after the event with this id, until the
        caller stops.
        """
        call = _job_events(self.id, after)
        return self._client.events(call)

    def logs(self, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """Yield the lines of the runner's log; with `follow`, until the runner has exited."""
        return self._client.lines(_job_logs(self.id, follow=follow, tail=tail))

    def keyed_state(
        self, vertex: str, name: str = "default", region: str | None = None
    ) -> "KeyedState":
        """Return the state of a vertex in the last completed checkpoint."""
        return KeyedState(self._client, StateOfVertex(self.id, False, vertex, name, region))

    def _subject(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<job {self.id}>"

    def _repr_html_(self) -> str:
        try:
            plan = self.plan()["plan"]
            return job_card.card(self.id, self.status(), plan, self.url)
        except HeadgateError as error:
            return job_card.sentence(f"job {self.id}: {error}")


class AsyncJobHandle:
    """A job on a server, for `asyncio`. The job is looked for when the first answer is awaited."""

    def __init__(self, client: AwaitsFlows, reference: str) -> None:
        self.reference = reference
        self._client = client
        self._id: str | None = None

    status = AsyncFlowMethod(of_call(api.get_job_status))
    graph = AsyncFlowMethod(of_call(api.get_job_graph))
    plan = AsyncFlowMethod(of_call(api.get_job_plan))
    history = AsyncFlowMethod(of_call(api.get_job_history))
    exceptions = AsyncFlowMethod(of_call(api.get_job_exceptions))
    checkpoints = AsyncFlowMethod(of_call(api.get_job_checkpoints))
    key_groups = AsyncFlowMethod(of_call(api.get_job_key_groups))
    operations = AsyncFlowMethod(of_call(api.get_job_operations))
    sink_rows = AsyncFlowMethod(of_call(api.get_job_sink_rows))
    wait = AsyncFlowMethod(flows.wait)
    checkpoint = AsyncFlowMethod(flows.checkpoint)
    savepoint = AsyncFlowMethod(flows.savepoint)
    stop = AsyncFlowMethod(flows.stop)
    rescale = AsyncFlowMethod(flows.rescale)
    plan_upgrade = AsyncFlowMethod(flows.plan_upgrade)
    upgrade = AsyncFlowMethod(flows.upgrade)
    cancel = AsyncFlowMethod(flows.cancel)
    pause = AsyncFlowMethod(flows.pause)
    resume = AsyncFlowMethod(flows.resume)

    async def id(self) -> str:
        if self._id is None:
            self._id = await self._client.follow(flows.find(self.reference))
        return self._id

    async def state(self) -> str:
        """Return the job's state: starting, running, stalled, finished, cancelled, failed …"""
        return (await self.status())["state"]

    async def events(self, after: int | None = None) -> AsyncIterator[ServerEvent]:
        """Yield what happens to the job from now on, or after the event with this id, until the
        caller stops.
        """
        async for event in self._client.events(_job_events(await self.id(), after)):
            yield event

    async def logs(self, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[str]:
        """Yield the lines of the runner's log; with `follow`, until the runner has exited."""
        async for line in self._client.lines(_job_logs(await self.id(), follow=follow, tail=tail)):
            yield line

    async def keyed_state(
        self, vertex: str, name: str = "default", region: str | None = None
    ) -> "AsyncKeyedState":
        """Return the state of a vertex in the last completed checkpoint."""
        state = StateOfVertex(await self.id(), False, vertex, name, region)
        return AsyncKeyedState(self._client, state)

    async def _subject(self) -> str:
        return await self.id()

    def __repr__(self) -> str:
        return f"<job {self.reference}>"


def _page(
    state: StateOfVertex, limit: int = 100, cursor: str | None = None
) -> Flow[answers.RowPage]:
    """Return a page of rows, ordered by subtask and key; `cursor` continues after another page."""
    return (yield from flows.ask(state.page(limit, cursor)))


def _key(state: StateOfVertex, key: str) -> Flow[answers.KeyResponse]:
    """Return the rows of a key: the value of the only key column, or a JSON object of columns."""
    return (yield from flows.ask(state.key(key)))


def _key_groups(state: StateOfVertex) -> Flow[answers.KeyGroupHistogram]:
    """Return how many rows and bytes each key group has."""
    return (yield from flows.ask(state.key_groups()))


class KeyedState:
    """The keyed state of a vertex."""

    def __init__(self, client: FollowsFlows, state: StateOfVertex) -> None:
        self._client = client
        self._state = state

    page = FlowMethod(_page)
    key = FlowMethod(_key)
    key_groups = FlowMethod(_key_groups)
    rows = FlowMethod(keyed_state.all_rows)
    to_arrow = FlowMethod(keyed_state.arrow_table)

    def to_pandas(self, most: int | None = None) -> Any:
        """Return the rows as a pandas DataFrame."""
        table: pyarrow.Table = self.to_arrow(most)
        return table.to_pandas()

    def _subject(self) -> StateOfVertex:
        return self._state


class AsyncKeyedState:
    """The keyed state of a vertex, for `asyncio`."""

    def __init__(self, client: AwaitsFlows, state: StateOfVertex) -> None:
        self._client = client
        self._state = state

    page = AsyncFlowMethod(_page)
    key = AsyncFlowMethod(_key)
    key_groups = AsyncFlowMethod(_key_groups)
    rows = AsyncFlowMethod(keyed_state.all_rows)
    to_arrow = AsyncFlowMethod(keyed_state.arrow_table)

    async def to_pandas(self, most: int | None = None) -> Any:
        """Return the rows as a pandas DataFrame."""
        table: pyarrow.Table = await self.to_arrow(most)
        return table.to_pandas()

    async def _subject(self) -> StateOfVertex:
        return self._state


def _job_events(job_id: str, after: int | None) -> ApiCall[ServerEvent]:
    return api.get_job_events(job_id, last_event_id=after)


def _job_logs(job_id: str, *, follow: bool, tail: int | None) -> ApiCall[str]:
    return api.get_job_logs(job_id, follow=follow or None, tail=tail)
