"""Relays that are cut lose what a network loses, and nothing else."""

import socket
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from jobmanager.api.forwarding import FORWARDED_BY
from tests.chaos.postgres_relay import PostgresRelay
from tests.chaos.relay import Manner, Relay, Said


class _Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def relay() -> Iterator[Relay]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hello)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = Relay(f"http://127.0.0.1:{server.server_address[1]}", Said())
    try:
        yield made
    finally:
        made.close()
        server.shutdown()
        server.server_close()


def test_servers_that_are_apart_hear_nothing_of_each_other_and_everybody_else_is_heard(
    relay: Relay,
) -> None:
    of_a_server = {FORWARDED_BY: "another server"}
    with httpx.Client(base_url=relay.url, trust_env=False) as http:
        assert http.get("/v1/jobs", headers=of_a_server).text == "hello"

        relay.manner = Manner.APART
        with pytest.raises(httpx.ReadTimeout):
            http.get("/v1/jobs", headers=of_a_server, timeout=0.5)
        assert http.get("/v1/jobs").text == "hello"
        assert relay.lost == 1

        relay.manner = Manner.HONEST
        assert http.get("/v1/jobs", headers=of_a_server).text == "hello"


def test_what_was_said_to_postgres_while_the_network_was_cut_arrives_later() -> None:
    with tempfile.TemporaryDirectory(prefix="hg") as name, socket.socket(socket.AF_UNIX) as echo:
        echo.bind(f"{name}/.s.PGSQL.5432")
        echo.listen()
        relay = PostgresRelay(Path(name) / "relay", Path(name))
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(f"{name}/relay/.s.PGSQL.5432")
            server, _ = echo.accept()
            with server:
                client.sendall(b"before")
                assert server.recv(100) == b"before"

                relay.cut()
                client.sendall(b"meanwhile")
                server.settimeout(0.5)
                with pytest.raises(TimeoutError):
                    server.recv(100)

                relay.heal()
                server.settimeout(30)
                assert server.recv(100) == b"meanwhile"
        relay.close()
