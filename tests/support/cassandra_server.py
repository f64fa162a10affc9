"""A real Cassandra node, in a process of its own.

`python -m tests.support.maven_jars cassandra` fetches its jars (56 MB) from a Maven repository.
Only long tests need them; `make chaos` calls this.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cassandra import AuthenticationFailed
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import RoundRobinPolicy
from cassandra.query import dict_factory

from tests.support.certificates import Authority
from tests.support.maven_jars import is_fetched, jars_of
from tests.support.redis_server import free_port
from tests.support.server import eventually

KEYSPACE = "shop"
ADMIN = ("cassandra", "cassandra")
"""The user that a node with logins has at first."""
_OPENED = """
    java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.lang.reflect
    java.base/java.math java.base/java.net java.base/java.nio java.base/java.util
    java.base/java.util.concurrent java.base/java.util.concurrent.atomic
    java.base/jdk.internal.loader java.base/jdk.internal.math java.base/jdk.internal.module
    java.base/jdk.internal.ref java.base/jdk.internal.reflect java.base/jdk.internal.util.jar
    java.base/sun.nio.ch java.rmi/sun.rmi.transport.tcp jdk.management/com.sun.management.internal
"""
_EXPORTED = """
    java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch
    java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry
    java.rmi/sun.rmi.server java.sql/java.sql
"""
"""What Cassandra reaches into, of the packages of Java 17."""


@dataclass
class CassandraUnderTest:
    """The node as a plain client sees it."""

    port: int
    directory: Path
    has_logins: bool = False
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def server(self) -> str:
        return f"127.0.0.1:{self.port}"

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A session whose rows are dictionaries."""
        login = PlainTextAuthProvider(*ADMIN) if self.has_logins else None
        profile = ExecutionProfile(RoundRobinPolicy(), row_factory=dict_factory, request_timeout=60)
        cluster = Cluster(
            ["127.0.0.1"],
            self.port,
            auth_provider=login,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            protocol_version=4,
            connect_timeout=10,
            schema_metadata_enabled=False,
            token_metadata_enabled=False,
        )
        try:
            yield cluster.connect()
        finally:
            cluster.shutdown()

    def done(self, *statements: str) -> list[dict[str, Any]]:
        """What the last of the statements returns."""
        with self.session() as session:
            return [list(session.execute(one)) for one in statements][-1]

    def empty(self) -> None:
        """Leaves the keyspace without tables."""
        tables = self.done(
            f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{KEYSPACE}'"
        )
        self.done(
            f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}",
            *(f'DROP TABLE {KEYSPACE}."{one["table_name"]}"' for one in tables),
        )

    def start(self) -> None:
        log = self.directory / "server.log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                self._command(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={k: v for k, v in os.environ.items() if k != "JAVA_TOOL_OPTIONS"},
                start_new_session=True,
            )
        process = self.process
        eventually(
            lambda: process.poll() is not None or self._answers(),
            within=240,
            explain=lambda: log.read_text()[-3000:],
        )
        assert process.poll() is None, log.read_text()[-3000:]

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def configure(self, tls: Authority | None) -> None:
        storage = free_port()
        seeds = {"class_name": "org.apache.cassandra.locator.SimpleSeedProvider"}
        settings: dict[str, Any] = {
            "cluster_name": "tests",
            "num_tokens": 1,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "commitlog_sync": "periodic",
            "commitlog_sync_period": "10000ms",
            "endpoint_snitch": "SimpleSnitch",
            "seed_provider": [{**seeds, "parameters": [{"seeds": f"127.0.0.1:{storage}"}]}],
            "listen_address": "127.0.0.1",
            "rpc_address": "127.0.0.1",
            "storage_port": storage,
            "native_transport_port": self.port,
            "auto_snapshot": False,  # dropping a table is quick
        }
        if self.has_logins:
            settings["authenticator"] = "PasswordAuthenticator"
            settings["authorizer"] = "CassandraAuthorizer"
            settings["role_manager"] = "CassandraRoleManager"
        if tls is not None:
            issued = tls.issue("127.0.0.1")
            both = self.directory / "server.pem"
            both.write_text(issued.key.read_text() + issued.certificate.read_text())
            settings["client_encryption_options"] = {
                "enabled": True,
                "optional": True,  # this client of the tests does not encrypt
                "ssl_context_factory": {
                    "class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory"
                },
                "keystore": str(both),
            }
        (self.directory / "cassandra.yaml").write_text(yaml.safe_dump(settings))

    def _command(self) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        properties = {
            "cassandra.config": f"file://{self.directory}/cassandra.yaml",
            "cassandra.storagedir": str(self.directory),
            "cassandra-foreground": "yes",
            "cassandra.superuser_setup_delay_ms": "0",
            "cassandra.skip_wait_for_gossip_to_settle": "0",
            "cassandra.ring_delay_ms": "0",
            "jdk.attach.allowAttachSelf": "true",
        }
        return [
            *(f"{home}/bin/java" if home else "java", "-Xmx512m", "-XX:TieredStopAtLevel=1"),
            "-XX:+UseSerialGC",
            *(f"--add-opens={one}=ALL-UNNAMED" for one in _OPENED.split()),
            *(f"--add-exports={one}=ALL-UNNAMED" for one in _EXPORTED.split()),
            *(f"-D{name}={value}" for name, value in properties.items()),
            *("-cp", os.pathsep.join(map(str, jars_of("cassandra")))),
            "org.apache.cassandra.service.CassandraDaemon",
        ]

    def _answers(self) -> bool:
        try:
            with self.session() as session:
                session.execute("SELECT * FROM system.local")
        except (NoHostAvailable, AuthenticationFailed, OSError):
            return False
        return True


@contextmanager
def a_cassandra(
    *, logins: bool = False, tls: Authority | None = None
) -> Iterator[CassandraUnderTest]:
    """A node with an empty keyspace. Without its jars the test is skipped, and says so."""
    if not is_fetched("cassandra"):
        pytest.skip("nothing about Cassandra was tested: make chaos fetches its jars")
    with ExitStack() as at_end:
        directory = Path(tempfile.mkdtemp(prefix="cassandra-"))
        at_end.callback(shutil.rmtree, directory, ignore_errors=True)
        node = CassandraUnderTest(free_port(), directory, logins)
        node.configure(tls)
        at_end.callback(node.kill)
        node.start()
        node.empty()
        yield node
