"""A relay between one server and Postgres, on a Unix socket of its own, that can be cut.

Cut means silence, as of a network that drops packets: nothing is refused, and whatever was said
meanwhile arrives when the network is there again. A connection that was silent for too long ends,
as the servers' `tcp_user_timeout` ends it (`jobmanager/store/database.py`), which sockets of this
kind do not have.
"""

import contextlib
import socket
import threading
from pathlib import Path
from urllib.parse import quote

_PIECE = 1 << 16
_SILENT_SECONDS = 10.0
_SOCKET = ".s.PGSQL.5432"


class PostgresRelay:
    def __init__(self, directory: Path, postgres: Path) -> None:
        """`postgres` is the directory of the socket on which Postgres listens."""
        directory.mkdir(parents=True)
        self._directory = directory
        self._target = postgres / _SOCKET
        self._flows = threading.Event()
        self._flows.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / _SOCKET))
        self._listener.listen(128)
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, postgres_url: str) -> str:
        """The URL of the same database, through this relay."""
        before, _, _ = postgres_url.partition("?host=")
        return f"{before}?host={quote(str(self._directory), safe='/')}&port=5432"

    def cut(self) -> None:
        self._flows.clear()

    def heal(self) -> None:
        self._flows.set()

    def close(self) -> None:
        self.heal()
        for one in (self._listener, *list(self._sockets)):
            _end(one)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        self._sockets |= {client, server}
        try:
            self._flow()
            server.connect(str(self._target))
            back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
            back.start()
            self._pump(client, server)
            back.join()
        except OSError:  # Postgres is not there, or cannot be reached
            pass
        finally:
            for one in (client, server):
                _end(one)
                self._sockets.discard(one)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                self._flow()
                target.sendall(piece)
        self._flows.wait(_SILENT_SECONDS)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _flow(self) -> None:
        if not self._flows.wait(_SILENT_SECONDS):
            raise ConnectionError("the network is cut")


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
