"""Events that the server sends while things happen, and the lines they are made of.

    for event in client.get_events():
        print(event.kind, event.data)

The stream of a client has no gaps: after a broken connection it goes on behind the last event
with an id.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from json import loads
from typing import Any, Generic, ParamSpec, Protocol, overload

from jobmanager.client.api_call import ApiCall, describe

Given = ParamSpec("Given")


@dataclass(frozen=True)
class ServerEvent:
    id: int | None
    """The place of the history entry; None: the event is not stored, such as progress."""
    kind: str
    """The kind of the history entry, or `progress`, `progress_summary`, `checkpoint_triggered`,
    `checkpoint_ack`.
    """
    data: dict[str, Any]
    """As `answers.HistoryEvent`, `ProgressEvent`, `ProgressSummaryEvent` or `CheckpointEvent`."""


@dataclass
class EventReader:
    """Makes events of the lines of a stream, one line after the other."""

    last_id: int | None = None
    _fields: dict[str, str] = field(default_factory=dict)

    def feed(self, line: str) -> ServerEvent | None:
        """Return the event that ends with this line, if one does."""
        if line:
            name, _, value = line.partition(":")
            if name:  # a line that begins with a colon is a comment
                value = value.removeprefix(" ")
                before = self._fields.get(name)
                self._fields[name] = value if before is None else f"{before}\n{value}"
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        number = int(fields["id"]) if fields.get("id", "").isdigit() else None
        self.last_id = self.last_id if number is None else number
        return ServerEvent(number, fields.get("event", "message"), loads(fields["data"]))


def following(call: ApiCall[ServerEvent], last_id: int | None) -> ApiCall[ServerEvent]:
    """Return the request for the events behind the last one that arrived."""
    if last_id is None:
        return call
    return replace(call, headers={**call.headers, "Last-Event-ID": str(last_id)})


class StreamsEvents(Protocol):
    def events(self, call: ApiCall[ServerEvent]) -> Iterator[ServerEvent]: ...


class AwaitsEvents(Protocol):
    def events(self, call: ApiCall[ServerEvent]) -> AsyncIterator[ServerEvent]: ...


class Events(Generic[Given]):
    """A method that yields events, until the caller stops."""

    def __init__(self, make: Callable[Given, ApiCall[ServerEvent]]) -> None:
        self._make = make
        describe(self, make)

    @overload
    def __get__(self, client: None, owner: type) -> "Events[Given]": ...

    @overload
    def __get__(
        self, client: StreamsEvents, owner: type
    ) -> Callable[Given, Iterator[ServerEvent]]: ...

    def __get__(
        self, client: StreamsEvents | None, owner: type
    ) -> "Events[Given] | Callable[Given, Iterator[ServerEvent]]":
        if client is None:
            return self
        stream = client

        def called(*given: Given.args, **named: Given.kwargs) -> Iterator[ServerEvent]:
            return stream.events(self._make(*given, **named))

        return update_wrapper(called, self._make)


class AsyncEvents(Generic[Given]):
    """A method that yields events to `async for`, until the caller stops."""

    def __init__(self, make: Callable[Given, ApiCall[ServerEvent]]) -> None:
        self._make = make
        describe(self, make)

    @overload
    def __get__(self, client: None, owner: type) -> "AsyncEvents[Given]": ...

    @overload
    def __get__(
        self, client: AwaitsEvents, owner: type
    ) -> Callable[Given, AsyncIterator[ServerEvent]]: ...

    def __get__(
        self, client: AwaitsEvents | None, owner: type
    ) -> "AsyncEvents[Given] | Callable[Given, AsyncIterator[ServerEvent]]":
        if client is None:
            return self
        stream = client

        def called(*given: Given.args, **named: Given.kwargs) -> AsyncIterator[ServerEvent]:
            return stream.events(self._make(*given, **named))

        return update_wrapper(called, self._make)
