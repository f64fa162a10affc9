"""A real HTTP server that gives the answers it was told to give."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answers:
    """Answers by "METHOD /path", and the requests that came.

    A list of answers is given one after the other, and the last of them from then on. An answer
    with the status 0 is none: the connection is closed.
    """

    url: str = ""
    of: dict[str, tuple[int, Any] | list[tuple[int, Any]]] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    """Those of each request."""

    def next(self, request: str) -> tuple[int, Any]:
        found = self.of.get(request, (404, {"errors": [f"no route {request.split()[1]}"]}))
        if isinstance(found, list):
            return found.pop(0) if len(found) > 1 else found[0]
        return found


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Yields the URL of a server with this handler."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def an_answering_server() -> Iterator[Answers]:
    given = Answers()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = f"{self.command} {self.path}"
            given.asked.append((request, _read(body)))
            given.headers.append(dict(self.headers.items()))
            status, answer = given.next(request)
            if status == 0:
                self.close_connection = True
                return
            content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - as http.server calls them

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with serving(Handler) as given.url:
        yield given


def _read(body: bytes) -> Any:
    """JSON, or the bytes of an upload."""
    try:
        return json.loads(body or b"null")
    except ValueError:
        return body
