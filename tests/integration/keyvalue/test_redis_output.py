"""The fence of a Redis sink on a real server: who may write, and what comes too late."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from taskrunner.core.store_failures import (
    FenceLost,
    OutputTaken,
    StoreFailure,
    StoreFull,
    StoreLoginRefused,
    StoreUnfit,
    StoreUnreachable,
    WriteOvertaken,
)
from taskrunner.sinks import redis_output
from taskrunner.sinks.redis_output import RedisAccess, RedisBatch, RedisOutput
from taskrunner.snapshots.fence import Superseded
from tests.support.redis_server import RedisUnderTest, a_redis, certificates, free_port
from tests.support.server import eventually

JOB, OTHER = JobId(UUID(int=7)), JobId(UUID(int=8))
SINK = VertexId("out")
PREFIX = "orders:"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisUnderTest]:
    with a_redis() as running:
        yield running


@pytest.fixture
def redis(server: RedisUnderTest) -> RedisUnderTest:
    with server.client() as client:
        client.flushall()
    return server


def access_to(redis: RedisUnderTest, **fields: Any) -> RedisAccess:
    return RedisAccess("127.0.0.1", redis.port, 0, **fields)


def output(
    redis: RedisUnderTest,
    attempt: int = 1,
    job: JobId = JOB,
    guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    **fields: Any,
) -> RedisOutput:
    access = access_to(redis)
    return RedisOutput(access, PREFIX, job, SINK, AttemptNumber(attempt), guard, **fields)


def started(redis: RedisUnderTest, attempt: int = 1, **fields: Any) -> RedisOutput:
    made = output(redis, attempt, **fields)
    made.take_over()
    return made


def opened(of: RedisOutput, batch: int) -> RedisBatch:
    found = of.begin(batch)
    assert found is not None
    return found


def put(batch: RedisBatch, **values: str | list[str] | None) -> None:
    with batch.access.connected() as client:
        batch.write(client, list(values.items()))


def written(of: RedisOutput, batch: int, **values: str | list[str] | None) -> None:
    put(opened(of, batch), **values)
    of.end(batch)


def found(redis: RedisUnderTest) -> dict[str, Any]:
    with redis.client() as client:
        keys = list(client.scan_iter(f"{PREFIX}*"))
        kinds = {one: client.type(one) for one in keys}
        return {
            one.removeprefix(PREFIX): client.hgetall(one)
            if kinds[one] == "hash"
            else client.get(one)
            for one in keys
        }


def test_a_row_is_a_hash_or_a_text_and_replaces_what_was_there(redis: RedisUnderTest) -> None:
    out = started(redis)

    written(out, 0, a=["id", "1", "name", "Ada"], b="text", c="gone soon")
    written(out, 1, a=["id", "2"], b=["now", "a hash"], c=None, d=None)

    assert found(redis) == {"a": {"id": "2"}, "b": {"now": "a hash"}}


def test_bytes_and_many_fields_are_stored_as_they_are(redis: RedisUnderTest) -> None:
    out = started(redis)
    fields = [text for n in range(3000) for text in (f"field {n}", f"value {n}")]

    batch = opened(out, 0)
    with batch.access.connected() as client:
        batch.write(client, [("bytes", b"\x00\xff"), ("wide", fields)])

    with redis.client(db=0) as client:
        client.connection_pool.connection_kwargs["decode_responses"] = False
        assert client.get(f"{PREFIX}bytes") == b"\x00\xff"
        assert client.hlen(f"{PREFIX}wide") == 3000


def test_a_key_expires_after_its_last_write(redis: RedisUnderTest) -> None:
    out = started(redis, expire_ms=60_000)

    written(out, 0, a="1", b=["x", "1"])

    with redis.client() as client:
        assert 50_000 < client.pttl(f"{PREFIX}a") <= 60_000
        assert 50_000 < client.pttl(f"{PREFIX}b") <= 60_000
        assert client.pttl(f"{redis_output.FENCE}{PREFIX}") == -1  # never


def test_a_batch_that_was_written_is_not_written_again(redis: RedisUnderTest) -> None:
    written(started(redis), 3, a="1")

    again = started(redis, attempt=2)
    again.go_back(3)

    assert again.has(3)
    assert again.begin(3) is None


def test_a_batch_that_was_begun_and_not_ended_is_written_again(redis: RedisUnderTest) -> None:
    put(opened(started(redis), 3), a="1")

    again = started(redis, attempt=2)
    again.go_back(3)
    assert not again.has(3)
    written(again, 3, a="1", b="2")

    assert found(redis) == {"a": "1", "b": "2"}


def test_rows_of_an_older_batch_that_come_late_are_not_written(redis: RedisUnderTest) -> None:
    out = started(redis)
    late = opened(out, 3)
    out.end(3)

    with pytest.raises(WriteOvertaken, match="batch 3 is over"):
        put(late, a="old")
    written(out, 4, a="new")
    with pytest.raises(WriteOvertaken, match="batch 3 is over"):
        put(late, a="old", never="seen")

    assert found(redis) == {"a": "new"}


def test_an_attempt_that_was_replaced_writes_nothing_whatever_the_key(
    redis: RedisUnderTest,
) -> None:
    old = started(redis, attempt=1)
    late = opened(old, 9)
    new = started(redis, attempt=2)
    new.go_back(4)
    written(new, 5, a="new")

    with pytest.raises(WriteOvertaken, match="attempt 2 of job"):
        put(late, a="old", another="old")
    with pytest.raises(Superseded, match="attempt 2 of job"):
        old.end(9)
    with pytest.raises(Superseded, match="attempt 2 of job"):
        old.begin(10)
    with pytest.raises(Superseded, match="attempt 2 of job"):
        old.go_back(0)
    with pytest.raises(Superseded, match="attempt 2 of job"):
        old.check()

    assert found(redis) == {"a": "new"}


def test_an_older_attempt_cannot_take_over_again(redis: RedisUnderTest) -> None:
    started(redis, attempt=2)

    with pytest.raises(Superseded, match="attempt 2 of job"):
        started(redis, attempt=1)


def test_after_a_restore_to_an_older_batch_the_newer_history_wins(redis: RedisUnderTest) -> None:
    # Given batches up to 7, of an attempt that may still have rows of 8 under way
    before = started(redis, attempt=1)
    for batch in range(8):
        written(before, batch, a=f"old {batch}")
    late = opened(before, 8)
    # When the next attempt starts after batch 3, and its numbers go back
    after = started(redis, attempt=2)
    after.go_back(3)
    written(after, 4, a="new 4")
    with pytest.raises(WriteOvertaken):
        put(late, a="old 8")
    # Then the rows with the lower number and the later history stay
    assert found(redis) == {"a": "new 4"}
    assert not after.has(5)


def test_another_job_that_continues_the_output_takes_it_over(redis: RedisUnderTest) -> None:
    parent = started(redis, attempt=7)
    written(parent, 5, a="parent")

    child = started(redis, attempt=1, job=OTHER)
    child.go_back(5)

    assert not child.has(5)  # the parent's record is not the child's
    written(child, 6, a="child")
    with pytest.raises(OutputTaken, match=f"attempt 1 of job {OTHER.hex}"):
        parent.begin(6)
    assert found(redis) == {"a": "child"}


def test_nothing_is_taken_over_or_begun_while_a_newer_attempt_holds_the_epoch(
    redis: RedisUnderTest,
) -> None:
    def refused() -> AbstractContextManager[None]:
        raise Superseded("attempt 1 was superseded by attempt 2")

    with pytest.raises(Superseded):
        output(redis, guard=refused).take_over()

    assert found(redis) == {}


def test_a_server_that_lost_its_data_is_noticed_in_the_batch(redis: RedisUnderTest) -> None:
    out = started(redis)
    batch = opened(out, 0)
    with redis.client() as client:
        client.flushall()

    with pytest.raises(FenceLost, match="has lost the key headgate:sink:orders:"):
        put(batch, a="1")
    with pytest.raises(FenceLost):
        out.end(0)

    assert found(redis) == {}


def failure_of(access: RedisAccess) -> StoreFailure:
    out = RedisOutput(access, PREFIX, JOB, SINK, AttemptNumber(1), nullcontext)
    with pytest.raises(StoreFailure) as failed:
        out.take_over()
    return failed.value


@pytest.fixture(autouse=True)
def _without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_output, "_RETRIES", 0)


def test_a_server_that_is_away_is_a_named_failure() -> None:
    failure = failure_of(RedisAccess("127.0.0.1", 1, 0))

    assert isinstance(failure, StoreUnreachable)
    assert "Redis at 127.0.0.1:1 does not answer" in str(failure)


def test_a_wrong_password_and_a_missing_right_are_named_failures() -> None:
    with a_redis("--requirepass", "geheim-1") as redis:
        for password in (None, "wrong-1"):
            failure = failure_of(access_to(redis, password=password))
            assert isinstance(failure, StoreLoginRefused)
            assert "wrong-1" not in str(failure)
        with redis.client(password="geheim-1") as client:
            client.acl_setuser("reader", enabled=True, passwords=["+leser"], commands=["+get"])
        failure = failure_of(access_to(redis, user="reader", password="leser"))
        assert isinstance(failure, StoreLoginRefused)
        assert "ACL SETUSER" in str(failure)
        # and with the rights that the docs name, it works
        rights = "+evalsha +eval +script|load +hmget +hget +hset +hdel +set +unlink +pexpire"
        with redis.client(password="geheim-1") as client:
            client.acl_setuser(
                "writer",
                enabled=True,
                passwords=["+schreiber"],
                commands=rights.split(),
                keys=[f"{PREFIX}*", f"{redis_output.FENCE}{PREFIX}"],
            )
        access = access_to(redis, user="writer", password="schreiber")
        out = RedisOutput(access, PREFIX, JOB, SINK, AttemptNumber(1), nullcontext)
        out.take_over()
        out.go_back(-1)
        written(out, 0, a="1", b=["x", "y"], c=None)
        assert out.has(0)


def test_a_server_without_memory_is_a_named_failure_and_the_batch_can_be_repeated() -> None:
    with a_redis("--maxmemory", "3mb", "--maxmemory-policy", "noeviction") as redis:
        out = started(redis)
        batch = opened(out, 0)
        with pytest.raises(StoreFull, match="raise maxmemory"):
            _fill(batch)
        with redis.client() as client:
            client.config_set("maxmemory", "100mb")
        written(out, 0, a="1")
        assert found(redis)["a"] == "1"


def _fill(batch: RedisBatch) -> None:
    for number in range(100):
        put(batch, **{f"key{number}": "x" * 100_000})


def test_a_node_of_a_cluster_is_refused(tmp_path: Path) -> None:
    settings = {
        "cluster-enabled": "yes",
        "cluster-config-file": str(tmp_path / "nodes.conf"),
        "cluster-port": str(free_port()),
    }
    listed = [text for name, value in settings.items() for text in (f"--{name}", value)]
    with a_redis(*listed) as redis:
        assert isinstance(failure_of(access_to(redis)), StoreUnfit)
        with redis.client() as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            _until_the_cluster_is_up(client)
        out = started(redis)
        with pytest.raises(StoreUnfit, match="part of a Redis Cluster"):
            put(opened(out, 0), a="1", b="2")


def _until_the_cluster_is_up(client: Any) -> None:
    eventually(lambda: "cluster_state:ok" in client.execute_command("CLUSTER", "INFO"), within=30)


def test_tls_is_verified(tmp_path: Path) -> None:
    files = certificates(tmp_path / "right")
    with a_redis(tls=files) as redis:
        trusted = Path(files["ca"]).read_text()
        secured = access_to(redis, is_encrypted=True, ca_certificates=trusted)
        out = RedisOutput(secured, PREFIX, JOB, SINK, AttemptNumber(1), nullcontext)
        out.take_over()
        written(out, 0, a="1")
        assert out.has(0)

        stranger = Path(certificates(tmp_path / "wrong")["ca"]).read_text()
        for refused in (
            access_to(redis, is_encrypted=True, ca_certificates=stranger),
            access_to(redis, is_encrypted=True),
            access_to(redis),
        ):
            assert isinstance(failure_of(refused), StoreUnreachable)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take over", "go back", "begin", "write", "end"]),
        st.integers(0, 3),  # which attempt
        st.integers(0, 4),  # which batch
    ),
    max_size=30,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(STEPS)
def test_only_the_open_batch_of_the_last_attempt_that_took_over_changes_keys(
    redis: RedisUnderTest, steps: list[tuple[str, int, int]]
) -> None:
    """Any order of what four attempts may do, against a model of the rules."""
    with redis.client() as client:
        client.flushall()
    attempts = [output(redis, number + 1) for number in range(4)]
    last, holder, is_open, seen = -1, -1, -1, {}
    batches = {(n, b): _batch_of(one, b) for n, one in enumerate(attempts) for b in range(5)}
    for step, who, batch in steps:
        try:
            match step:
                case "take over":
                    attempts[who].take_over()
                    assert who >= last
                    last = holder = who
                    is_open = -1
                case "go back":
                    attempts[who].go_back(batch)
                    assert who == holder
                case "begin":
                    if attempts[who].begin(batch) is not None:
                        is_open = batch
                    assert who == holder
                case "write":
                    put(batches[who, batch], a=f"{who} {batch}")
                    assert (who, batch) == (holder, is_open)
                    seen = {"a": f"{who} {batch}"}
                case "end":
                    attempts[who].end(batch)
                    assert (who, batch) == (holder, is_open)
                    is_open = -1
        except (Superseded, WriteOvertaken, FenceLost):
            assert (who, batch) != (holder, is_open) or (step == "take over" and who < last)
        assert found(redis) == seen


def _batch_of(output: RedisOutput, batch: int) -> RedisBatch:
    return RedisBatch(output._access, PREFIX, output._token, batch)
