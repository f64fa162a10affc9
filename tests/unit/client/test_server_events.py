"""Events are read from lines as the server sends them."""

from jobmanager.client import operations
from jobmanager.client.server_events import EventReader, ServerEvent, following


def read(text: str) -> list[ServerEvent]:
    reader = EventReader()
    found = [reader.feed(line) for line in text.split("\n")]
    return [one for one in found if one is not None]


def test_an_event_has_id_kind_and_data() -> None:
    text = 'retry: 2000\n\nid: 7\nevent: job_submitted\ndata: {"job": "3f", "n": "a: b"}\n\n'

    assert read(text) == [ServerEvent(7, "job_submitted", {"job": "3f", "n": "a: b"})]


def test_comments_and_events_that_are_not_stored() -> None:
    text = ': alive\n\nevent: progress\ndata: {"a":\ndata: 1}\n\n: alive\n\n'

    assert read(text) == [ServerEvent(None, "progress", {"a": 1})]


def test_the_stream_goes_on_behind_the_last_event_with_an_id() -> None:
    reader = EventReader()
    call = operations.get_events(last_event_id=3)
    for line in ("id: 7", "data: {}", "", "event: progress", "data: {}", ""):
        reader.feed(line)

    assert reader.last_id == 7
    assert following(call, None).headers["Last-Event-ID"] == "3"
    assert following(call, reader.last_id).headers["Last-Event-ID"] == "7"
