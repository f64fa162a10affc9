"""A relay in front of one server: all that runners say goes through it, as long as it is kind.

It remembers what they said of checkpoints and attempts, token included, so that it can be said
again; and it can deliver twice, late, or not at all. What one server says to the other goes
through the other's relay as well, and can be lost.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from jobmanager.api.forwarding import FORWARDED_BY
from jobmanager.protocol.messages import ATTEMPT_TOKEN

_HOP_BY_HOP = {"host", "connection", "content-length", "transfer-encoding", "keep-alive"}
_CREDENTIALS = ("authorization", ATTEMPT_TOKEN.lower())
_OF_RUNNERS = ("/acks", "/declines", "/attempt")


class Manner(StrEnum):
    HONEST = "honest"
    DOUBLES = "doubles"
    DELAYS = "delays"
    REFUSES = "refuses"
    """What runners say; everybody else is served."""
    APART = "apart"
    """What the other server says is lost: no answer comes, until the connection ends."""


class Lost(Exception):
    """The network lost a request, and its connection."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a runner said once."""

    path: str
    credentials: Mapping[str, str]
    """The headers with the runner's secret and the attempt's token."""
    body: bytes


@dataclass
class Said:
    """What went through all relays of a world."""

    messages: list[Message] = field(default_factory=list)
    completions: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often a job's checkpoint was said to be completed by an ack."""


class Relay:
    def __init__(self, target: str, said: Said) -> None:
        self._target = target
        self._said = said
        self.manner = Manner.HONEST
        self.delay = 0.0
        self.lost = 0
        """Requests of the other server."""
        self._http = httpx.Client(timeout=httpx.Timeout(5, read=20), trust_env=False)
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._http.close()

    def pass_on(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> httpx.Response | None:
        """The server's answer; None: it cannot be had. Raises `Lost`."""
        is_runners = path.startswith("/v1/runners/")
        # a server that passes it on comes through the other's relay: it was heard already
        is_first_hand = FORWARDED_BY.lower() not in headers
        matters = is_runners and path.endswith(_OF_RUNNERS) and is_first_hand
        if is_runners and self.manner is Manner.REFUSES:
            return None
        if not is_first_hand and self.manner is Manner.APART:
            self.lost += 1
            while self.manner is Manner.APART:
                time.sleep(0.05)
            raise Lost
        if matters:
            shown = {one: headers[one] for one in _CREDENTIALS if one in headers}
            self._said.messages.append(Message(path, shown, body))
            if self.manner is Manner.DELAYS:
                time.sleep(self.delay)
        answer = self._send(method, path, headers, body)
        if matters and self.manner is Manner.DOUBLES:
            self._count(path, body, answer)
            answer = self._send(method, path, headers, body)
        if matters:
            self._count(path, body, answer)
        return answer

    def _send(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> httpx.Response | None:
        try:
            return self._http.request(method, self._target + path, headers=headers, content=body)
        except (httpx.HTTPError, RuntimeError):  # closed meanwhile
            return None

    def _count(self, path: str, body: bytes, answer: httpx.Response | None) -> None:
        if path.endswith("/acks") and answer is not None and answer.status_code == 200:
            count_completion(self._said, body, answer)


def count_completion(said: Said, body: bytes, answer: httpx.Response) -> None:
    if answer.json()["outcome"] == "completed":
        acks = httpx.Response(200, content=body).json()
        said.completions[acks["job"], acks["checkpoint"]] += 1


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Who asked was killed: that is what this is for."""


def _handler(relay: Relay) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def _relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {k.lower(): v for k, v in self.headers.items()}
            kept = {k: v for k, v in headers.items() if k not in _HOP_BY_HOP}
            try:
                answer = relay.pass_on(self.command, self.path, kept, body)
            except Lost:
                self.close_connection = True
                return
            if answer is None:
                self._say(502, {}, b"")
            else:
                passed = {k: v for k, v in answer.headers.items() if k not in _HOP_BY_HOP}
                passed.pop("content-encoding", None)  # httpx has decoded it
                self._say(answer.status_code, passed, answer.content)

        def _say(self, status: int, headers: dict[str, str], body: bytes) -> None:
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # who asked is gone
                self.close_connection = True

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _relay  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
