"""Rows under keys of a Redis server, written by tasks and fenced inside of the server.

The driver takes over when an attempt starts, opens a batch before tasks write it and closes it when
all have; `redis_scripts` has the rules. A batch appears key by key, and after a crash it is written
again, with the same rows.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from taskrunner import logs
from taskrunner.core.store_failures import (
    FenceLost,
    OutputTaken,
    StoreFull,
    StoreLoginRefused,
    StoreRefused,
    StoreUnfit,
    StoreUnreachable,
    WriteOvertaken,
)
from taskrunner.sinks import redis_scripts
from taskrunner.sinks.directory import Guard
from taskrunner.sinks.optional_packages import imported
from taskrunner.snapshots.fence import Superseded

log = logs.get("redis_output")
FENCE = "headgate:sink:"
"""The name of a sink's fence is this, and the prefix of its keys."""
_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 30
_RETRIES = 3
_LONGEST_PAUSE_SECONDS = 2

Value = str | bytes
KeyedValue = tuple[str, Value | Sequence[Value] | None]
"""A key with its text, or with the fields of its hash (name, value, name, …); None: no such key."""


@dataclass(frozen=True, slots=True)
class RedisAccess:
    """How a server is reached, from the driver and from tasks."""

    host: str
    port: int
    database: int
    is_encrypted: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_certificates: str | None = None
    """In PEM; None: those that the machine trusts."""

    @property
    def name(self) -> str:
        return f"Redis at {self.host}:{self.port}"

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A client, for one thread. It connects when it is first used."""
        client = self._client()
        try:
            yield client
        finally:
            with suppress(Exception):
                client.close()

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A client for commands whose failures are named (`translated`)."""
        with self.client() as client, self.translated():
            yield client

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Names the failures of the client and of the server."""
        errors = imported("redis.exceptions", "redis")
        try:
            yield
        except errors.AuthenticationError as error:
            raise StoreLoginRefused(
                f"{self.name} refuses the login ({error}): correct user and password, or the "
                "secret that the password refers to"
            ) from error
        except errors.NoPermissionError as error:
            raise StoreLoginRefused(
                f"{self.name}: the user may not do what the sink needs ({error}): allow it by "
                "ACL SETUSER, as the page of the connector says"
            ) from error
        except (errors.BusyLoadingError, errors.ReadOnlyError) as error:
            raise StoreUnreachable(
                f"{self.name} takes no writes now ({error}): is this a replica, or is the server "
                "starting? The batch is written again after a restart of the job"
            ) from error
        except (errors.ConnectionError, errors.TimeoutError, OSError) as error:
            raise StoreUnreachable(
                f"{self.name} does not answer ({_first_line(error)}): is the server running, is "
                "its address right, and does it speak TLS exactly if the url says rediss? The "
                "batch is written again after a restart of the job"
            ) from error
        except errors.OutOfMemoryError as error:
            raise StoreFull(_full(self.name, error)) from error
        except errors.RedisError as error:
            if str(error).startswith(("OOM", "MISCONF")) or "OOM command" in str(error):
                raise StoreFull(_full(self.name, error)) from error
            if str(error).startswith(("CROSSSLOT", "MOVED", "ASK")) or "slot" in str(error):
                raise StoreUnfit(
                    f"{self.name} is part of a Redis Cluster, where a script cannot see the fence "
                    f"of the sink ({_first_line(error)}): name a single server, with or without "
                    "replicas"
                ) from error
            raise StoreRefused(f"{self.name} refuses a command: {_first_line(error)}") from error

    def _client(self) -> Any:
        redis = imported("redis", "redis")
        retry, backoff = imported("redis.retry", "redis"), imported("redis.backoff", "redis")
        encryption: dict[str, Any] = {}
        if self.is_encrypted:
            encryption = {"ssl": True, "ssl_cert_reqs": "required", "ssl_check_hostname": True}
            if self.ca_certificates is not None:
                encryption["ssl_ca_data"] = self.ca_certificates
        return redis.Redis(
            host=self.host,
            port=self.port,
            db=self.database,
            username=self.user,
            password=self.password,
            socket_connect_timeout=_CONNECT_SECONDS,
            socket_timeout=_ANSWER_SECONDS,
            retry=retry.Retry(backoff.ExponentialBackoff(cap=_LONGEST_PAUSE_SECONDS), _RETRIES),
            **encryption,
        )


@dataclass(frozen=True, slots=True)
class RedisBatch:
    """One batch of one attempt, as tasks write it."""

    access: RedisAccess
    prefix: str
    token: str
    batch: int
    expire_ms: int = 0
    """After the last write of a key; 0: never."""

    def write(self, client: Any, rows: Sequence[KeyedValue]) -> None:
        """Writes some rows in one step. Raises `WriteOvertaken` and `FenceLost`, with nothing
        written, or what the server refuses.
        """
        values: list[Value] = [self.token, str(self.batch), str(self.expire_ms)]
        for _, value in rows:
            if value is None:
                values.append("-1")
            elif isinstance(value, str | bytes):
                values += ["0", value]
            else:
                values += [str(len(value) // 2), *value]
        keys = [f"{FENCE}{self.prefix}", *(self.prefix + key for key, _ in rows)]
        script = client.register_script(redis_scripts.WRITE)
        with self.access.translated():
            answer = script(keys, values, client)
        state, job, found = _texts(answer)
        if state == "gone":
            raise _fence_lost(self.access, self.prefix)
        if state == "superseded":
            raise WriteOvertaken(_taken(self.access, self.prefix, job, found))
        if state == "overtaken":
            raise WriteOvertaken(
                f"{self.access.name}, keys {self.prefix}*: batch {self.batch} is over, and rows of "
                "it came later; they were not written"
            )


class RedisOutput:
    """The keys of one sink, as the driver sees them. One thread uses it."""

    def __init__(
        self,
        access: RedisAccess,
        prefix: str,
        job: JobId,
        sink: VertexId,
        attempt: AttemptNumber,
        guard: Guard,
        expire_ms: int = 0,
        after_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._access = access
        self._prefix = prefix
        self._job = job
        self._sink = sink
        self._attempt = attempt
        self._guard = guard
        self._expire_ms = expire_ms
        self._after_step = after_step
        """Called after each step after which a crash may happen (tests use it)."""
        self._token = uuid4().hex

    def take_over(self) -> None:
        """Keeps everybody else from writing under the prefix, from now on. Raises `Superseded`."""
        with self._guard(), self._access.connected() as client:
            state, job, attempt = self._run(
                client, redis_scripts.TAKE_OVER, self._job.hex, self._sink, self._attempt
            )
        if state == "superseded":
            raise self._replaced(job, attempt)
        if job not in ("", self._job.hex):
            log.info("redis_keys_taken_over", prefix=self._prefix, from_job=job)

    def go_back(self, last_kept: int) -> None:
        """Lets the batches after `last_kept` be written again. Their keys stay until then."""
        with self._guard():
            self._fenced(redis_scripts.GO_BACK, last_kept)

    def begin(self, batch: int) -> RedisBatch | None:
        """Opens a batch for tasks; None: it was written before. Raises `Superseded`."""
        with self._guard():
            state = self._fenced(redis_scripts.BEGIN, batch)
        if state == "written":
            return None
        self._after_step("begun")
        return RedisBatch(self._access, self._prefix, self._token, batch, self._expire_ms)

    def end(self, batch: int) -> None:
        """Closes a batch that tasks have written. Raises `Superseded`."""
        self._after_step("written")
        with self._guard():
            self._fenced(redis_scripts.END, batch)
        self._after_step("ended")

    def check(self) -> None:
        """Raises `Superseded` if somebody else has taken over."""
        with self._guard():
            self._fenced(redis_scripts.CHECK, 0)

    def has(self, batch: int) -> bool:
        """Whether the batch was written before."""
        with self._access.connected() as client:
            done = client.hget(f"{FENCE}{self._prefix}", "done")
        return done is not None and int(done) >= batch

    def _fenced(self, script: str, batch: int) -> str:
        with self._access.connected() as client:
            keys = [f"{FENCE}{self._prefix}"]
            answer = client.register_script(script)(keys, [self._token, batch])
        state, job, found = _texts(answer)
        if state == "gone":
            raise _fence_lost(self._access, self._prefix)
        if state == "superseded":
            raise self._replaced(job, found)
        if state == "overtaken":
            raise WriteOvertaken(f"{self._access.name}: batch {batch} is not open any more")
        return state

    def _replaced(self, job: str, attempt: str) -> Superseded | OutputTaken:
        message = _taken(self._access, self._prefix, job, attempt)
        if job == self._job.hex:
            return Superseded(message)
        return OutputTaken(f"{message}: give each job a prefix of its own")

    def _run(self, client: Any, script: str, *values: object) -> tuple[str, str, str]:
        keys = [f"{FENCE}{self._prefix}"]
        return _texts(client.register_script(script)(keys, [*map(str, values), self._token]))


def _fence_lost(access: RedisAccess, prefix: str) -> FenceLost:
    return FenceLost(
        f"{access.name} has lost the key {FENCE}{prefix}: the server was emptied, restarted "
        "without its data, failed over, or evicted the key. What it lost of the output is not "
        "written again by itself: start the job from a savepoint that is older than the loss"
    )


def _taken(access: RedisAccess, prefix: str, job: str, attempt: str) -> str:
    return f"attempt {attempt} of job {job} has taken over the keys {prefix}* of {access.name}"


def _full(name: str, error: Exception) -> str:
    return (
        f"{name} has no room ({_first_line(error)}): raise maxmemory or free the disk, or let keys "
        "go with expire. The batch is written again after a restart of the job"
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _texts(answer: Sequence[Any]) -> tuple[str, str, str]:
    state, job, found = (one.decode() if isinstance(one, bytes) else str(one) for one in answer)
    return state, job, found
