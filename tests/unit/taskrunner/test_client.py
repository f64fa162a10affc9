import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import pytest

from jobmanager.core.ids import RunnerId
from jobmanager.protocol.messages import (
    ATTEMPT_TOKEN,
    PROTOCOL_HEADER,
    PROTOCOL_VERSION,
    Heartbeat,
    RunnerHello,
    UnknownDirective,
)
from taskrunner.control.address import AddressFile
from taskrunner.control.client import (
    PROBLEM,
    CallRefused,
    JobManagerClient,
    NotDelivered,
    RunnerDismissed,
)

HELLO = RunnerHello(protocol=PROTOCOL_VERSION, host="here", pid=1, spark_version="4.3.0")
WELCOME = b'{"heartbeat_interval_ms": 100, "poll_wait_ms": 200}'
Answer = tuple[int, bytes]


class QuietHandler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(handler: type[QuietHandler]) -> Iterator[str]:
    listening = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=listening.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_address[1]}"
    listening.shutdown()
    thread.join()
    listening.server_close()


@contextmanager
def server(answer: Callable[[Message], Answer]) -> Iterator[str]:
    """Answers by the headers of a request."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, content = answer(self.headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if content.startswith(b'{"type"'):
                self.send_header("Content-Type", PROBLEM)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - as http.server calls it

    with serving(Handler) as url:
        yield url


def a_client(tmp_path: Path, *urls: str) -> JobManagerClient:
    address_file(tmp_path, *urls)
    return JobManagerClient(RunnerId(UUID(int=1)), AddressFile(tmp_path / "address"), "s3cret")


def address_file(tmp_path: Path, *urls: str) -> None:
    (tmp_path / "address").write_text(json.dumps({"urls": urls}))


def test_a_call_carries_the_secret(tmp_path: Path) -> None:
    seen: list[str] = []

    def answer(headers: Message) -> Answer:
        seen.append(headers["Authorization"])
        return 200, WELCOME

    with server(answer) as url, a_client(tmp_path, url) as client:
        assert client.register(HELLO).poll_wait_ms == 200
    assert seen == ["Bearer s3cret"]


def test_what_is_said_of_an_attempt_carries_its_token(tmp_path: Path) -> None:
    seen: list[str | None] = []

    def answer(headers: Message) -> Answer:
        seen.append(headers[ATTEMPT_TOKEN])
        return 200, b'{"superseded": false}'

    def beat(attempt: int | None) -> Heartbeat:
        return Heartbeat(job=UUID(int=7) if attempt else None, attempt=attempt, regions=[])

    with server(answer) as url, a_client(tmp_path, url) as client:
        client.heartbeat(beat(None))
        client.heartbeat(beat(1))  # of a JobManager that gave no token
        client.learn_token(1, "first")
        client.learn_token(2, "second")
        for attempt in (1, 2, None):
            client.heartbeat(beat(attempt))
    assert seen == [None, None, "first", "second", None]


def test_an_answer_that_cannot_be_read_is_not_repeated(tmp_path: Path) -> None:
    said = {"heartbeat_interval_ms": ["s3cret"], "poll_wait_ms": 1}

    with (
        server(lambda _: (200, json.dumps(said).encode())) as url,
        a_client(tmp_path, url) as client,
        pytest.raises(CallRefused) as refused,
    ):
        client.register(HELLO)
    assert "heartbeat_interval_ms: Input should be a valid integer" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_directive_that_cannot_be_read_is_told_without_its_values(tmp_path: Path) -> None:
    run = {"kind": "run", "token": ["s3cret"]}
    said = {"directives": [{"id": 1, "job": None, "attempt": 1, "body": run}]}

    with (
        server(lambda _: (200, json.dumps(said).encode())) as url,
        a_client(tmp_path, url) as client,
    ):
        (directive,) = client.directives(0, 0).directives
    assert isinstance(directive.body, UnknownDirective)
    assert directive.body.kind == "run"
    assert "token" in directive.body.fault
    assert "s3cret" not in directive.body.fault


def test_a_jobmanager_that_fails_for_a_while_is_asked_again(tmp_path: Path) -> None:
    answers = [(500, b""), (503, b""), (200, WELCOME)]

    with server(lambda _: answers.pop(0)) as url, a_client(tmp_path, url) as client:
        assert client.register(HELLO).heartbeat_interval_ms == 100
    assert answers == []


def test_a_jobmanager_that_moved_is_found_through_the_address_file(tmp_path: Path) -> None:
    with server(lambda _: (200, WELCOME)) as url:
        with server(lambda _: (200, WELCOME)) as gone:
            client = a_client(tmp_path, gone)
            client.register(HELLO)
        address_file(tmp_path, url)

        with client:
            assert client.register(HELLO).poll_wait_ms == 200


def test_a_runner_asks_the_others_that_it_was_told_of(tmp_path: Path) -> None:
    beat = Heartbeat(job=None, attempt=None, regions=[])
    with server(lambda _: (200, b'{"superseded": false}')) as second:
        said = json.dumps({"superseded": False, "urls": ["http://127.0.0.1:9", second]}).encode()
        with server(lambda _: (200, said)) as first:
            client = a_client(tmp_path, first)
            client.heartbeat(beat)

        with client:  # the first one is gone, and so is the leader it named
            with pytest.raises(NotDelivered):
                client.heartbeat(beat)
            assert client.heartbeat(beat).superseded is False
            assert client.heartbeat(beat).superseded is False


def test_of_threads_that_fail_with_one_address_the_first_moves_on(tmp_path: Path) -> None:
    address_file(tmp_path, "http://one", "http://two", "http://three")
    addresses = AddressFile(tmp_path / "address")

    tried = addresses.current()
    addresses.failed(tried)
    addresses.failed(tried)

    assert (tried, addresses.current()) == ("http://one", "http://two")


def test_what_jobmanagers_say_comes_before_the_file_and_the_file_after(tmp_path: Path) -> None:
    address_file(tmp_path, "http://file")
    addresses = AddressFile(tmp_path / "address")
    addresses.current()

    addresses.learn(["http://leader/", "http://follower"])
    addresses.learn([])  # from one that knows of none
    tried = []
    for _ in range(4):
        tried.append(addresses.current())
        addresses.failed(tried[-1])

    assert tried == ["http://leader", "http://follower", "http://file", "http://leader"]


@pytest.mark.parametrize("status", [401, 404, 410])
def test_a_runner_that_is_not_known_is_told_so_at_once(tmp_path: Path, status: int) -> None:
    with (
        server(lambda _: (status, b'{"type": "/problems/RunnerNotFound"}')) as url,
        a_client(tmp_path, url) as client,
        pytest.raises(RunnerDismissed, match=str(status)),
    ):
        client.register(HELLO)


@pytest.mark.parametrize("status", [401, 404, 410])
def test_a_stranger_on_the_servers_port_cannot_dismiss_a_runner(
    tmp_path: Path, status: int
) -> None:
    with (
        server(lambda _: (status, b"<html>who?</html>")) as url,
        a_client(tmp_path, url) as client,
        pytest.raises(NotDelivered, match=str(status)),
    ):
        client.heartbeat(Heartbeat(job=None, attempt=None, regions=[]))


@pytest.mark.parametrize("answer", [(422, b"no"), (200, b"{}")])
def test_a_refusal_or_an_unreadable_answer_is_not_tried_again(
    tmp_path: Path, answer: Answer
) -> None:
    with (
        server(lambda _: answer) as url,
        a_client(tmp_path, url) as client,
        pytest.raises(CallRefused),
    ):
        client.register(HELLO)


def test_a_heartbeat_is_tried_once(tmp_path: Path) -> None:
    calls: list[str] = []

    def answer(headers: Message) -> Answer:
        calls.append(headers["Authorization"])
        return 503, b""

    heartbeat = Heartbeat(job=None, attempt=None, regions=[])
    with (
        server(answer) as url,
        a_client(tmp_path, url) as client,
        pytest.raises(NotDelivered),
    ):
        client.heartbeat(heartbeat)
    assert len(calls) == 1


def test_a_closed_client_gives_up(tmp_path: Path) -> None:
    client = a_client(tmp_path, "http://127.0.0.1:9")
    client.close()

    with pytest.raises(NotDelivered):
        client.register(HELLO)


def test_without_an_address_file_the_client_goes_on_trying(tmp_path: Path) -> None:
    client = JobManagerClient(RunnerId(UUID(int=1)), AddressFile(tmp_path / "none"), "token")

    with client, pytest.raises(NotDelivered, match="FileNotFoundError"):
        client._call("POST", "/register", HELLO, RunnerHello, within=timedelta(seconds=0))


def a_server_of(
    version: int | None, heard: list[dict[str, Any]]
) -> Callable[[str, dict[str, Any]], Answer]:
    """A server that refuses what is newer than version 1 if it is of version 1 itself."""

    def answer(path: str, body: dict[str, Any]) -> Answer:
        heard.append(body)
        if version is None and body.get("protocol", 1) > 1:
            return 400, b'{"type": "/problems/MalformedRequest"}'
        return 200, b'{"superseded": false}' if path.endswith("heartbeat") else WELCOME

    return answer


@contextmanager
def versioned_server(version: int | None, heard: list[dict[str, Any]]) -> Iterator[str]:
    answered = a_server_of(version, heard)

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, content = answered(self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if status >= 400:
                self.send_header("Content-Type", PROBLEM)
            if version is not None:
                self.send_header(PROTOCOL_HEADER, str(version))
            self.end_headers()
            self.wfile.write(content)

    with serving(Handler) as url:
        yield url


def test_a_runner_registers_at_an_older_server_in_the_words_of_that_server(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []

    with versioned_server(None, heard) as url, a_client(tmp_path, url) as client:
        assert client.register(HELLO).poll_wait_ms == 200

    assert [one["protocol"] for one in heard] == [PROTOCOL_VERSION, 1]


def test_a_runner_goes_back_to_its_own_version_with_a_newer_server(tmp_path: Path) -> None:
    old: list[dict[str, Any]] = []
    new: list[dict[str, Any]] = []
    with versioned_server(PROTOCOL_VERSION, new) as second:
        with versioned_server(None, old) as first:
            client = a_client(tmp_path, first)
            client.register(HELLO)
        address_file(tmp_path, second)
        with client:
            client.register(HELLO)
            client.register(HELLO)

    assert [one["protocol"] for one in old] == [PROTOCOL_VERSION, 1]
    assert [one["protocol"] for one in new] == [1, PROTOCOL_VERSION]
