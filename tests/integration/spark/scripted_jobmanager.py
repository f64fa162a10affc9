"""A JobManager that does what a test tells it, over real HTTP."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qs, urlparse
from uuid import UUID

from jobmanager.protocol.messages import (
    ATTEMPT_TOKEN,
    AttemptReply,
    AttemptReport,
    Barrier,
    BarrierAcks,
    BarrierDecline,
    BarrierReply,
    Directive,
    DirectiveBody,
    Directives,
    Heartbeat,
    HeartbeatReply,
    Message,
    Run,
    RunnerHello,
    RunnerWelcome,
)

Found = TypeVar("Found")
SECRET = "s3cret"
FINAL_CHECKPOINT = 1000
"""The number of the checkpoint that is triggered when the input of an attempt has ended."""
AckOutcome = Literal["recorded", "completed", "already_recorded", "too_late", "superseded"]


class ScriptedJobManager:
    """Collects what runners say, and hands out the directives it is given."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.said: list[Message] = []
        self.directives: list[Directive] = []
        self.superseded: set[int] = set()
        """Attempts that are told so."""
        self.tokens: dict[int, str] = {}
        """Of the attempts that it told somebody to run: what is said of them needs it."""
        self.ack_outcome: AckOutcome = "completed"
        self.is_away = False
        """Whether nobody is answered."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def direct(self, job: UUID | None, attempt: int | None, body: DirectiveBody) -> None:
        if isinstance(body, Run):
            assert attempt is not None
            self.tokens[attempt] = f"the token of attempt {attempt}"
            body = body.model_copy(update={"token": self.tokens[attempt]})
        with self._changed:
            number = len(self.directives) + 1
            self.directives.append(Directive(id=number, job=job, attempt=attempt, body=body))
            self._changed.notify_all()

    def send_barrier(self, job: UUID, attempt: int, checkpoint: int) -> None:
        expires_at = datetime.now(UTC) + timedelta(minutes=1)
        self.direct(job, attempt, Barrier(checkpoint=checkpoint, expires_at=expires_at))

    def wait_for(self, find: Callable[[Message], Found | None], seconds: float = 120) -> Found:
        """The first thing said, now or later, in which `find` finds something."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                for message in self.said:
                    found = find(message)
                    if found is not None:
                        return found
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"not said in {seconds} s; last: {self.said[-3:]}")
                self._changed.wait(left)

    def take(self, message: Message) -> None:
        with self._changed:
            self.said.append(message)
            self._changed.notify_all()

    def fetch(self, after: int, wait_ms: int) -> Directives:
        with self._changed:
            self._changed.wait_for(
                lambda: len(self.directives) > after, timeout=min(wait_ms / 1000, 1.0)
            )
            return Directives(directives=self.directives[after:])


def _answer(jobmanager: ScriptedJobManager, path: str, body: bytes) -> Message:
    match path.rpartition("/")[2]:
        case "register":
            jobmanager.take(RunnerHello.model_validate_json(body))
            return RunnerWelcome(heartbeat_interval_ms=300, poll_wait_ms=1000)
        case "heartbeat":
            heartbeat = Heartbeat.model_validate_json(body)
            jobmanager.take(heartbeat)
            return HeartbeatReply(superseded=heartbeat.attempt in jobmanager.superseded)
        case "acks":
            jobmanager.take(BarrierAcks.model_validate_json(body))
            return BarrierReply(outcome=jobmanager.ack_outcome)
        case "declines":
            jobmanager.take(BarrierDecline.model_validate_json(body))
            return BarrierReply(outcome="recorded")
        case "attempt":
            report = AttemptReport.model_validate_json(body)
            jobmanager.take(report)
            if report.body.event == "input_ended":
                jobmanager.send_barrier(report.job, report.attempt, FINAL_CHECKPOINT)
            return AttemptReply(superseded=False)
        case other:
            raise AssertionError(f"nobody should call {other}")


def _handler(jobmanager: ScriptedJobManager) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            query = parse_qs(urlparse(self.path).query)
            self._send(jobmanager.fetch(int(query["after"][0]), int(query["wait_ms"][0])))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            wanted = jobmanager.tokens.get(json.loads(body).get("attempt"))
            if wanted is not None and self.headers[ATTEMPT_TOKEN] != wanted:
                self.send_error(403)
                return
            self._send(_answer(jobmanager, self.path, body))

        def _send(self, message: Message) -> None:
            if jobmanager.is_away:
                self.send_error(503)
                return
            if self.headers["Authorization"] != f"Bearer {SECRET}":
                self.send_error(401)
                return
            content = message.model_dump_json().encode()
            with suppress(ConnectionError):  # whoever asked has ended
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
