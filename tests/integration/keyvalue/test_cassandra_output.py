"""The versions of a Cassandra sink on a real node: who may write, and what comes too late."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from jobmanager.core.graph.connectors.cassandra import Consistency
from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from taskrunner.core.store_failures import (
    FenceLost,
    OutputTaken,
    RowsRefused,
    StoreFailure,
    StoreLoginRefused,
    StoreUnreachable,
    WriteOvertaken,
)
from taskrunner.sinks.cassandra_output import CassandraAccess, CassandraRow, CassandraStore
from taskrunner.sinks.versioned_output import OpenBatch, VersionedOutput
from taskrunner.snapshots.fence import Superseded
from tests.support.cassandra_server import KEYSPACE, CassandraUnderTest, a_cassandra
from tests.support.certificates import Authority

pytestmark = pytest.mark.long

JOB, OTHER = JobId(UUID(int=7)), JobId(UUID(int=8))
SINK = VertexId("out")


@pytest.fixture(scope="module")
def node() -> Iterator[CassandraUnderTest]:
    with a_cassandra() as running:
        yield running


@pytest.fixture
def cassandra(node: CassandraUnderTest) -> CassandraUnderTest:
    node.empty()
    node.done(f"CREATE TABLE {KEYSPACE}.orders (id text PRIMARY KEY, v text, w text)")
    return node


def store_of(
    cassandra: CassandraUnderTest, expire_seconds: int = 0, **fields: Any
) -> CassandraStore:
    access = CassandraAccess(("127.0.0.1",), cassandra.port, **fields)
    return CassandraStore(access, KEYSPACE, "orders", ("id",), expire_seconds)


def output(
    store: CassandraStore,
    attempt: int = 1,
    job: JobId = JOB,
    guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    **fields: Any,
) -> VersionedOutput:
    return VersionedOutput(store, job, SINK, AttemptNumber(attempt), guard, **fields)


def started(cassandra: CassandraUnderTest, attempt: int = 1, **fields: Any) -> VersionedOutput:
    store = store_of(cassandra)
    with store.connected() as connection:
        connection.make_records()
    made = output(store, attempt, **fields)
    made.take_over()
    return made


def rows(**values: str | None) -> list[CassandraRow]:
    return [CassandraRow({"id": key, "v": v}, is_deleted=v is None) for key, v in values.items()]


def put(batch: OpenBatch | None, **values: str | None) -> None:
    assert batch is not None
    with batch.store.connected() as connection:
        batch.write(connection, rows(**values))


def put_late(batch: OpenBatch, **values: str | None) -> None:
    """As a task does that looked at the record before it changed."""
    with batch.store.connected() as connection:
        connection.write(rows(**values), batch.version)


def written(of: VersionedOutput, batch: int, **values: str | None) -> None:
    with of.batch(batch) as opened:
        put(opened, **values)


def left_open(of: VersionedOutput, batch: int) -> OpenBatch:
    """A batch whose attempt dies, or is replaced, before it ends."""
    opened = of.batch(batch).__enter__()
    assert opened is not None
    return opened


def found(cassandra: CassandraUnderTest) -> dict[str, str]:
    return {one["id"]: one["v"] for one in cassandra.done(f"SELECT id, v FROM {KEYSPACE}.orders")}


def test_a_row_replaces_the_row_of_its_key_and_a_delete_deletes(
    cassandra: CassandraUnderTest,
) -> None:
    out = started(cassandra)

    written(out, 0, a="1", b="2", c="gone soon")
    written(out, 1, a="3", c=None, d=None)
    written(out, 2, d="back")

    assert found(cassandra) == {"a": "3", "b": "2", "d": "back"}


def test_nulls_are_written_and_columns_that_rows_do_not_have_are_left_alone(
    cassandra: CassandraUnderTest,
) -> None:
    cassandra.done(f"INSERT INTO {KEYSPACE}.orders (id, v, w) VALUES ('a', 'by hand', 'stays')")

    with started(cassandra).batch(0) as opened, store_of(cassandra).connected() as connection:
        assert opened is not None
        opened.write(connection, [CassandraRow({"id": "a", "v": None})])

    assert cassandra.done(f"SELECT * FROM {KEYSPACE}.orders") == [
        {"id": "a", "v": None, "w": "stays"}
    ]


def test_rows_that_others_wrote_before_are_replaced(cassandra: CassandraUnderTest) -> None:
    cassandra.done(f"INSERT INTO {KEYSPACE}.orders (id, v) VALUES ('a', 'by hand')")

    written(started(cassandra), 0, a="1")

    assert found(cassandra) == {"a": "1"}


def test_a_row_expires_after_its_last_write(cassandra: CassandraUnderTest) -> None:
    started(cassandra)
    store = store_of(cassandra, expire_seconds=600)
    out = output(store)
    out.take_over()

    written(out, 0, a="1")

    [row] = cassandra.done(f"SELECT ttl(v) AS left FROM {KEYSPACE}.orders")
    assert 500 < row["left"] <= 600


def test_a_batch_that_was_written_is_not_written_again(cassandra: CassandraUnderTest) -> None:
    written(started(cassandra), 3, a="1")

    again = started(cassandra, attempt=2)
    again.go_back(3)

    assert again.has(3)
    with again.batch(3) as opened:
        assert opened is None


def test_a_batch_that_was_begun_and_not_ended_is_written_again(
    cassandra: CassandraUnderTest,
) -> None:
    put(left_open(started(cassandra), 3), a="1")

    again = started(cassandra, attempt=2)
    again.go_back(3)
    assert not again.has(3)
    written(again, 3, a="1", b="2")

    assert found(cassandra) == {"a": "1", "b": "2"}


def test_rows_of_an_older_batch_that_come_late_never_replace_newer_rows(
    cassandra: CassandraUnderTest,
) -> None:
    out = started(cassandra)
    with out.batch(3) as late:
        put(late, a="old", b="old")
    assert late is not None
    written(out, 4, a="new", b=None)

    with pytest.raises(WriteOvertaken, match="batch 3 is over"):
        put(late, a="old", never="seen")
    put_late(late, a="older", b="older")

    assert found(cassandra) == {"a": "new"}


def test_an_attempt_that_was_replaced_writes_nothing_newer(cassandra: CassandraUnderTest) -> None:
    old = started(cassandra, attempt=1)
    opening = old.batch(9)
    late = opening.__enter__()
    assert late is not None
    new = started(cassandra, attempt=2)
    new.go_back(4)
    written(new, 5, a="new", b=None)

    with pytest.raises(WriteOvertaken, match="attempt 2 of job"):
        put(late, a="old", another="old")
    put_late(late, a="old", b="old")
    with pytest.raises(Superseded, match="attempt 2 of job"):
        opening.__exit__(None, None, None)  # the end of the batch
    with pytest.raises(Superseded, match="attempt 2 of job"), old.batch(10):
        pass
    with pytest.raises(Superseded, match="attempt 2 of job"):
        old.go_back(0)

    assert found(cassandra) == {"a": "new"}


def test_a_request_under_way_at_the_take_over_loses_as_soon_as_its_key_is_written(
    cassandra: CassandraUnderTest,
) -> None:
    """What versions cannot do: the key was never written by the new attempt."""
    late = left_open(started(cassandra, attempt=1), 9)
    new = started(cassandra, attempt=2)
    new.go_back(4)

    put_late(late, another="old")
    assert found(cassandra) == {"another": "old"}

    written(new, 5, another="new")
    assert found(cassandra) == {"another": "new"}


def test_an_older_attempt_cannot_take_over_again(cassandra: CassandraUnderTest) -> None:
    started(cassandra, attempt=2)

    with pytest.raises(Superseded, match="attempt 2 of job"):
        started(cassandra, attempt=1)


def test_after_a_restore_to_an_older_batch_the_newer_history_wins(
    cassandra: CassandraUnderTest,
) -> None:
    # Given batches up to 7, of an attempt that may still have rows of 8 under way
    before = started(cassandra, attempt=1)
    for batch in range(8):
        written(before, batch, a=f"old {batch}")
    late = left_open(before, 8)
    # When the next attempt, whose clock is behind, starts after batch 3
    after = started(cassandra, attempt=2, clock=lambda: 1.0)
    after.go_back(3)
    written(after, 4, a="new 4")
    put_late(late, a="old 8")
    # Then the rows with the lower number and the later history stay
    assert found(cassandra) == {"a": "new 4"}
    assert not after.has(5)


def test_another_job_that_continues_the_output_takes_it_over(
    cassandra: CassandraUnderTest,
) -> None:
    parent = started(cassandra, attempt=7)
    written(parent, 5, a="parent")

    child = started(cassandra, attempt=1, job=OTHER)
    child.go_back(5)

    assert not child.has(5)  # the parent's record is not the child's
    written(child, 6, a="child")
    with pytest.raises(OutputTaken, match=f"attempt 1 of job {OTHER.hex}"), parent.batch(6):
        pass
    assert found(cassandra) == {"a": "child"}


def test_nothing_is_taken_over_while_a_newer_attempt_holds_the_epoch(
    cassandra: CassandraUnderTest,
) -> None:
    def refused() -> AbstractContextManager[None]:
        raise Superseded("attempt 1 was superseded by attempt 2")

    with pytest.raises(Superseded):
        started(cassandra, guard=refused)

    with store_of(cassandra).connected() as connection:
        assert connection.read_record() is None


def test_a_lost_record_is_noticed_in_the_batch(cassandra: CassandraUnderTest) -> None:
    out = started(cassandra)
    opened = left_open(out, 0)
    cassandra.done(f"TRUNCATE {KEYSPACE}.headgate_sinks")

    with pytest.raises(FenceLost, match=r"the row orders of the table shop\.headgate_sinks"):
        put(opened, a="1")
    with pytest.raises(FenceLost), out.batch(1):
        pass

    assert found(cassandra) == {}


def test_attempts_that_take_over_at_the_same_time_leave_one_writer(
    cassandra: CassandraUnderTest,
) -> None:
    started(cassandra, attempt=1)
    outputs = [output(store_of(cassandra), attempt) for attempt in range(2, 8)]

    def take_over(one: VersionedOutput) -> bool:
        try:
            one.take_over()
        except Superseded:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(take_over, outputs))

    for one in outputs[:-1]:
        with pytest.raises(Superseded, match="attempt 7 of job"), one.batch(0):
            pass
    written(outputs[-1], 0, a="7")
    assert found(cassandra) == {"a": "7"}


@pytest.mark.parametrize(
    ("type", "value"), [("uuid", "no uuid"), ("inet", "1.2.3.4.5"), ("ascii", "ä")]
)
def test_a_text_that_is_not_of_the_type_of_its_column_is_named(
    cassandra: CassandraUnderTest, type: str, value: str
) -> None:
    cassandra.done(f"ALTER TABLE {KEYSPACE}.orders ADD x {type}")
    opened = left_open(started(cassandra), 0)

    refused = pytest.raises(RowsRefused, match="the row with id = 'a' has a value that is not of")
    with store_of(cassandra).connected() as connection, refused:
        opened.write(connection, [CassandraRow({"id": "a", "x": value})])


def test_an_empty_key_is_named(cassandra: CassandraUnderTest) -> None:
    opened = left_open(started(cassandra), 0)

    with pytest.raises(RowsRefused, match="Key may not be empty"):
        put(opened, **{"": "1"})


@pytest.mark.parametrize("consistency", Consistency)
def test_rows_are_written_with_every_consistency(
    cassandra: CassandraUnderTest, consistency: Consistency
) -> None:
    started(cassandra)
    out = output(replace(store_of(cassandra), consistency=consistency.name))
    out.take_over()

    written(out, 0, a="1", b=None)

    assert found(cassandra) == {"a": "1"}


def failure_of(store: CassandraStore) -> StoreFailure:
    with pytest.raises(StoreFailure) as failed:
        output(store).take_over()
    return failed.value


def test_a_cluster_that_is_away_is_a_named_failure() -> None:
    access = CassandraAccess(("127.0.0.1",), 1)
    failure = failure_of(CassandraStore(access, KEYSPACE, "orders", ("id",)))

    assert isinstance(failure, StoreUnreachable)
    assert "Cassandra at 127.0.0.1:1 does not answer" in str(failure)


def test_too_few_replicas_are_a_named_failure(cassandra: CassandraUnderTest) -> None:
    cassandra.done(
        "CREATE KEYSPACE wide WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 3}",
        "CREATE TABLE wide.orders (id text PRIMARY KEY, v text)",
    )
    store = CassandraStore(
        CassandraAccess(("127.0.0.1",), cassandra.port), "wide", "orders", ("id",)
    )
    with store.connected() as connection, pytest.raises(StoreUnreachable, match="replicas"):
        connection.write(rows(a="1"), 1)


def test_logins_rights_and_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "right")
    trusted = authority.certificate.read_text()
    with a_cassandra(logins=True, tls=authority) as cassandra:
        cassandra.done(
            f"CREATE TABLE {KEYSPACE}.orders (id text PRIMARY KEY, v text)",
            "CREATE ROLE writer WITH PASSWORD = 'geheim-1' AND LOGIN = true",
            "CREATE ROLE reader WITH PASSWORD = 'leser-1' AND LOGIN = true",
            f"GRANT CREATE ON KEYSPACE {KEYSPACE} TO writer",
            f"GRANT MODIFY ON TABLE {KEYSPACE}.orders TO writer",
            f"GRANT SELECT ON KEYSPACE {KEYSPACE} TO reader",
        )

        def secured(user: str | None, password: str, ca: str | None = trusted) -> CassandraStore:
            login = {"user": user, "password": password if user else None}
            return store_of(cassandra, 0, is_encrypted=True, ca_certificates=ca, **login)

        # the rights that the page of the connector names are enough, and reading is not
        store = secured("writer", "geheim-1")
        with store.connected() as connection:
            assert [one.name for one in connection.columns()] == ["id", "v"]
            connection.make_records()  # whoever creates a table has all rights for it
        out = output(store)
        out.take_over()
        out.go_back(-1)
        written(out, 0, a="1", b=None)
        assert out.has(0)
        assert found(cassandra) == {"a": "1"}
        failure = failure_of(secured("reader", "leser-1"))
        assert isinstance(failure, StoreLoginRefused)
        assert "the user may not do what the sink needs" in str(failure)

        for user, password in (("writer", "wrong-1"), (None, "")):
            failure = failure_of(secured(user, password))
            assert isinstance(failure, StoreLoginRefused)
            assert "refuses the login" in str(failure)
            assert "wrong-1" not in str(failure)
        # TLS is verified
        stranger = Authority(tmp_path / "wrong").certificate.read_text()
        for ca in (stranger, None):
            assert isinstance(failure_of(secured("writer", "geheim-1", ca)), StoreUnreachable)
