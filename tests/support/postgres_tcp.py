"""A TCP port on loopback for a Postgres that listens only on a Unix socket: JDBC knows only TCP."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import URL, make_url

_PIECE = 1 << 16


class TcpDoor:
    """Passes bytes on, both ways, until it is closed."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def drop_connections(self) -> None:
        """As a failing network does: whoever speaks gets an error. New connections are served."""
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            self._open |= {client, server}
            with contextlib.suppress(OSError):
                server.connect(str(self._target))
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server)
                back.join()
            self._open -= {client, server}


class JdbcPostgres:
    """A database of the run's Postgres, as psycopg and as JDBC reach it."""

    def __init__(self, url: str, door: TcpDoor) -> None:
        found: URL = make_url(url)
        self.url = url
        self.door = door
        self.jdbc_url = f"jdbc:postgresql://127.0.0.1:{door.port}/{found.database}"
        self.user = str(found.username)
        self.password = str(found.password)


@contextmanager
def over_tcp(postgres_url: str) -> Iterator[JdbcPostgres]:
    found = make_url(postgres_url)
    directory, port = found.query["host"], found.query.get("port", "5432")
    door = TcpDoor(Path(str(directory)) / f".s.PGSQL.{port}")
    try:
        yield JdbcPostgres(postgres_url, door)
    finally:
        door.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
