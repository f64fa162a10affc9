"""A webhook of a real server, which is killed while its receiver has the request."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from jobmanager.core.signals.signature import is_genuine
from jobmanager.services.clock import utc_now
from tests.support.answering_server import serving
from tests.support.builders import a_document
from tests.support.server import a_server, eventually

KEY = "a key of the receiver, long enough"


class SlowReceiver:
    """Answers the first request when it is told to, and all others at once."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        self.are_genuine: list[bool] = []
        self.may_answer = threading.Event()


@contextmanager
def a_slow_receiver() -> Iterator[SlowReceiver]:
    receiver = SlowReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            header = self.headers["Headgate-Signature"]
            receiver.are_genuine.append(is_genuine(header, KEY, body, utc_now()))
            receiver.bodies.append(json.loads(body))
            if len(receiver.bodies) == 1:
                receiver.may_answer.wait(60)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with serving(Handler) as receiver.url:
        try:
            yield receiver
        finally:
            receiver.may_answer.set()


@pytest.mark.long
def test_a_leader_killed_between_delivery_and_record_loses_and_changes_nothing(
    postgres_url: str,
) -> None:
    with a_slow_receiver() as receiver, a_server(postgres_url) as server:
        rule = {"name": "ops", "url": receiver.url, "on": ["state_changed"], "secret": KEY}
        assert server.http.post("/v1/webhooks", json=rule).status_code == 201
        job = server.submit(a_document(name="killed"))
        assert server.http.patch(f"/v1/jobs/{job}?mode=cancel").status_code == 202
        eventually(lambda: len(receiver.bodies) == 1, 60)
        server.stop(signal.SIGKILL)
        receiver.may_answer.set()
        server.start()
        eventually(lambda: "cancelled" in {one["state"] for one in receiver.bodies}, 60)
        eventually(lambda: server.get("/v1/webhooks")["items"][0]["pending"] == 0, 60)
        found = server.get("/v1/webhooks/ops/deliveries")["items"]

    ids = [one["id"] for one in receiver.bodies]
    assert ids[0] == ids[1]
    assert len(ids) == len(set(ids)) + 1
    sequences = [one["sequence"] for one in receiver.bodies]
    assert sequences == sorted(sequences)
    assert all(receiver.are_genuine)
    assert {one["status"] for one in found} == {"delivered"}
    assert [one["delivery"] for one in reversed(found)] == list(dict.fromkeys(ids))
