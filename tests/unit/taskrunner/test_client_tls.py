"""A runner that talks to a JobManager with TLS believes its certificate, and no other."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import pytest

from jobmanager.core.ids import RunnerId
from jobmanager.protocol.messages import Heartbeat
from taskrunner.control.address import AddressFile
from taskrunner.control.client import JobManagerClient, NotDelivered
from tests.support.certificates import Authority, Issued

BEAT = Heartbeat(job=None, attempt=None, regions=[])


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = json.dumps({"superseded": False}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def a_server(issued: Issued, port: int = 0) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    listening = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    thread = Thread(target=listening.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield listening.server_port
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def a_runner(directory: Path, port: int, ca: Path | None) -> JobManagerClient:
    address = directory / "address"
    address.write_text(json.dumps({"urls": [f"https://127.0.0.1:{port}"]}))
    return JobManagerClient(RunnerId(UUID(int=1)), AddressFile(address), "token", ca)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_only_a_certificate_of_the_authority_is_believed(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")

    with a_server(ours.issue("127.0.0.1")) as port:
        with a_runner(tmp_path, port, ours.certificate) as client:
            assert client.heartbeat(BEAT).urls == []
        for wrong in (theirs.certificate, None):
            refused = pytest.raises(NotDelivered, match="CERTIFICATE_VERIFY_FAILED")
            with a_runner(tmp_path, port, wrong) as client, refused:
                client.heartbeat(BEAT)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_certificate_that_was_renewed_is_believed_again(tmp_path: Path) -> None:
    first = Authority(tmp_path / "1").issue("127.0.0.1")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(first.certificate.read_bytes())

    with a_server(first) as port, a_runner(tmp_path, port, trusted) as client:
        client.heartbeat(BEAT)
    second = Authority(tmp_path / "2").issue("127.0.0.1")
    with a_server(second) as port, a_runner(tmp_path, port, trusted) as client:
        with pytest.raises(NotDelivered):
            client.heartbeat(BEAT)
        trusted.write_bytes(second.certificate.read_bytes())
        with pytest.raises(NotDelivered):  # it looks at the file again
            client.heartbeat(BEAT)
        client.heartbeat(BEAT)
