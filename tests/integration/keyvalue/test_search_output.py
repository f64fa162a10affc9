"""The versions of a search sink on real servers: who may write, and what comes too late."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from taskrunner.core.store_failures import (
    FenceLost,
    OutputTaken,
    RowsRefused,
    StoreFailure,
    StoreLoginRefused,
    StoreUnfit,
    StoreUnreachable,
    WriteOvertaken,
)
from taskrunner.sinks import search_clients, search_output
from taskrunner.sinks.search_clients import SearchAccess
from taskrunner.sinks.search_output import SearchStore
from taskrunner.sinks.versioned_output import OpenBatch, VersionedOutput
from taskrunner.snapshots.fence import Superseded
from tests.support.certificates import Authority
from tests.support.search_server import PASSWORDS, SearchUnderTest, a_search_server

pytestmark = pytest.mark.long

JOB, OTHER = JobId(UUID(int=7)), JobId(UUID(int=8))
SINK = VertexId("out")
INDEX = "orders"


@pytest.fixture(scope="module", params=["opensearch", "elasticsearch"])
def server(request: pytest.FixtureRequest) -> Iterator[SearchUnderTest]:
    with a_search_server(request.param) as running:
        yield running


@pytest.fixture
def search(server: SearchUnderTest) -> SearchUnderTest:
    server.empty()
    server.done("PUT", f"/{INDEX}")
    return server


def store_of(search: SearchUnderTest, index: str = INDEX, **fields: Any) -> SearchStore:
    return SearchStore(SearchAccess(search.product, search.url, **fields), index)


def output(
    search: SearchUnderTest,
    attempt: int = 1,
    job: JobId = JOB,
    guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    **fields: Any,
) -> VersionedOutput:
    return VersionedOutput(store_of(search), job, SINK, AttemptNumber(attempt), guard, **fields)


def started(search: SearchUnderTest, attempt: int = 1, **fields: Any) -> VersionedOutput:
    with store_of(search).connected() as connection:
        connection.make_records()
    made = output(search, attempt, **fields)
    made.take_over()
    return made


def documents(**values: Any) -> list[tuple[str, str | None]]:
    return [
        (key, None if value is None else json.dumps({"v": value})) for key, value in values.items()
    ]


def put(batch: OpenBatch | None, **values: Any) -> None:
    assert batch is not None
    with batch.store.connected() as connection:
        batch.write(connection, documents(**values))


def put_late(batch: OpenBatch | None, **values: Any) -> None:
    """As a task does that looked at the record before it changed."""
    assert batch is not None
    with batch.store.connected() as connection:
        connection.write(documents(**values), batch.version)


def written(of: VersionedOutput, batch: int, **values: Any) -> None:
    with of.batch(batch) as opened:
        put(opened, **values)


def left_open(of: VersionedOutput, batch: int) -> OpenBatch:
    """A batch whose attempt dies, or is replaced, before it ends."""
    opening = of.batch(batch)
    opened = opening.__enter__()
    assert opened is not None
    return opened


def found(search: SearchUnderTest) -> dict[str, Any]:
    return {key: one["v"] for key, one in search.documents(INDEX).items()}


def test_a_row_replaces_the_document_of_its_key_and_a_delete_deletes(
    search: SearchUnderTest,
) -> None:
    out = started(search)

    written(out, 0, a="1", b="2", c="gone soon")
    written(out, 1, a="3", c=None, d=None)

    assert found(search) == {"a": "3", "b": "2"}


def test_documents_that_others_wrote_before_are_replaced(search: SearchUnderTest) -> None:
    for version in range(5):
        search.done("PUT", f"/{INDEX}/_doc/a", {"v": f"by hand {version}"})

    written(started(search), 0, a="1")

    assert found(search) == {"a": "1"}


def test_a_batch_that_was_written_is_not_written_again(search: SearchUnderTest) -> None:
    written(started(search), 3, a="1")

    again = started(search, attempt=2)
    again.go_back(3)

    assert again.has(3)
    with again.batch(3) as opened:
        assert opened is None


def test_a_batch_that_was_begun_and_not_ended_is_written_again(search: SearchUnderTest) -> None:
    put(left_open(started(search), 3), a="1")

    again = started(search, attempt=2)
    again.go_back(3)
    assert not again.has(3)
    written(again, 3, a="1", b="2")

    assert found(search) == {"a": "1", "b": "2"}


def test_rows_of_an_older_batch_that_come_late_never_replace_newer_rows(
    search: SearchUnderTest,
) -> None:
    out = started(search)
    with out.batch(3) as late:
        put(late, a="old", b="old")
    with pytest.raises(WriteOvertaken, match="batch 3 is over"):
        put(late, a="old")
    written(out, 4, a="new", b=None)

    with pytest.raises(WriteOvertaken, match="batch 3 is over"):
        put(late, a="old", never="seen")
    with pytest.raises(WriteOvertaken, match="has newer versions of 2 rows"):
        put_late(late, a="old", b="old")

    assert found(search) == {"a": "new"}


def test_a_task_that_sends_rows_twice_changes_nothing(search: SearchUnderTest) -> None:
    with started(search).batch(0) as opened:
        put(opened, a="1", b=None)
        put(opened, a="1", b=None)

    assert found(search) == {"a": "1"}


def test_an_attempt_that_was_replaced_writes_nothing_newer(search: SearchUnderTest) -> None:
    old = started(search, attempt=1)
    opening = old.batch(9)
    late = opening.__enter__()
    new = started(search, attempt=2)
    new.go_back(4)
    written(new, 5, a="new")

    with pytest.raises(WriteOvertaken, match="attempt 2 of job"):
        put(late, a="old", another="old")
    with pytest.raises(WriteOvertaken, match="has newer versions of 1 rows"):
        put_late(late, a="old")
    with pytest.raises(Superseded, match="attempt 2 of job"):
        opening.__exit__(None, None, None)  # the end of the batch
    with pytest.raises(Superseded, match="attempt 2 of job"), old.batch(10):
        pass
    with pytest.raises(Superseded, match="attempt 2 of job"):
        old.go_back(0)

    assert found(search) == {"a": "new"}


def test_a_request_under_way_at_the_take_over_loses_as_soon_as_its_key_is_written(
    search: SearchUnderTest,
) -> None:
    """What versions cannot do: the key was never written by the new attempt."""
    late = left_open(started(search, attempt=1), 9)
    new = started(search, attempt=2)
    new.go_back(4)

    put_late(late, another="old")
    assert found(search) == {"another": "old"}

    written(new, 5, another="new")
    assert found(search) == {"another": "new"}


def test_an_older_attempt_cannot_take_over_again(search: SearchUnderTest) -> None:
    started(search, attempt=2)

    with pytest.raises(Superseded, match="attempt 2 of job"):
        started(search, attempt=1)


def test_after_a_restore_to_an_older_batch_the_newer_history_wins(
    search: SearchUnderTest,
) -> None:
    # Given batches up to 7, of an attempt that may still have rows of 8 under way
    before = started(search, attempt=1)
    for batch in range(8):
        written(before, batch, a=f"old {batch}")
    late = left_open(before, 8)
    # When the next attempt, whose clock is behind, starts after batch 3
    after = started(search, attempt=2, clock=lambda: 1.0)
    after.go_back(3)
    written(after, 4, a="new 4")
    with pytest.raises(WriteOvertaken):
        put_late(late, a="old 8")
    # Then the rows with the lower number and the later history stay
    assert found(search) == {"a": "new 4"}
    assert not after.has(5)


def test_another_job_that_continues_the_output_takes_it_over(search: SearchUnderTest) -> None:
    parent = started(search, attempt=7)
    written(parent, 5, a="parent")

    child = started(search, attempt=1, job=OTHER)
    child.go_back(5)

    assert not child.has(5)  # the parent's record is not the child's
    written(child, 6, a="child")
    with pytest.raises(OutputTaken, match=f"attempt 1 of job {OTHER.hex}"), parent.batch(6):
        pass
    assert found(search) == {"a": "child"}


def test_nothing_is_taken_over_while_a_newer_attempt_holds_the_epoch(
    search: SearchUnderTest,
) -> None:
    def refused() -> AbstractContextManager[None]:
        raise Superseded("attempt 1 was superseded by attempt 2")

    with pytest.raises(Superseded):
        started(search, guard=refused)

    with store_of(search).connected() as connection:
        assert connection.read_record() is None


def test_a_lost_record_is_noticed_in_the_batch(search: SearchUnderTest) -> None:
    out = started(search)
    opened = left_open(out, 0)
    search.done("DELETE", "/headgate-sinks")

    with pytest.raises(FenceLost, match="the document orders of the index headgate-sinks"):
        put(opened, a="1")
    with pytest.raises(FenceLost), out.batch(1):
        pass

    assert found(search) == {}


def test_attempts_that_take_over_at_the_same_time_leave_one_writer(
    search: SearchUnderTest,
) -> None:
    started(search, attempt=1)
    outputs = [output(search, attempt) for attempt in range(2, 8)]

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
    assert found(search) == {"a": "7"}


def test_what_is_wrong_with_an_index_is_said_before_anything_is_written(
    search: SearchUnderTest,
) -> None:
    strict = {"dynamic": "strict", "properties": {"id": {"type": "long"}}}
    search.done("PUT", "/strict", {"mappings": strict})
    alias = {"add": {"indices": ["strict", INDEX], "alias": "both"}}
    search.done("POST", "/_aliases", {"actions": [alias]})

    def faults(index: str) -> list[str]:
        with store_of(search, index).connected() as connection:
            return connection.faults(["id", "v", "w"])

    assert faults(INDEX) == []
    [absent] = faults("nowhere")
    assert "has no index 'nowhere': create the index" in absent
    assert len(faults("strict")) == 2
    [several] = faults("both")
    assert "means several indexes (orders, strict)" in several


def test_values_and_keys_that_the_server_does_not_take_are_named(
    search: SearchUnderTest,
) -> None:
    search.done("PUT", f"/{INDEX}/_mapping", {"properties": {"v": {"type": "long"}}})
    opened = left_open(started(search), 0)

    with pytest.raises(RowsRefused, match=r"1 rows, the first with the key 'b'.*failed to parse"):
        put(opened, a=1, b="no number")
    with pytest.raises(RowsRefused, match="has 600 bytes"):
        put(opened, **{"k" * 600: 1})


def test_a_server_that_is_busy_is_asked_again(server: SearchUnderTest) -> None:
    """The server refuses requests with 429 while other requests fill its memory for rows."""
    settings = {"indexing_pressure.memory.limit": "120kb"}
    with a_search_server(server.product, settings=settings) as search:
        search.done("PUT", f"/{INDEX}")
        with started(search).batch(0) as opened, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: put(opened, **{f"k{n}": "x" * 50_000}), range(40)))
        assert len(search.documents(INDEX)) == 40
        with pytest.raises(StoreUnreachable, match=r"did not take 1 rows in \d tries"):
            put(left_open(started(search, attempt=2), 1), k="x" * 200_000)
        [node] = search.done("GET", "/_nodes/stats/indexing_pressure")["nodes"].values()
        total = node["indexing_pressure"]["memory"]["total"]
        assert total["coordinating_rejections"] > 0


@pytest.fixture(autouse=True)
def _without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_clients, "_RETRIES", 0)
    monkeypatch.setattr(search_output, "_FIRST_PAUSE_SECONDS", 0.02)


def failure_of(store: SearchStore) -> StoreFailure:
    out = VersionedOutput(store, JOB, SINK, AttemptNumber(1), nullcontext)
    with pytest.raises(StoreFailure) as failed:
        out.take_over()
    return failed.value


@pytest.mark.parametrize(
    ("product", "shown"), [("elasticsearch", "Elasticsearch"), ("opensearch", "OpenSearch")]
)
def test_a_server_that_is_away_is_a_named_failure(product: str, shown: str) -> None:
    failure = failure_of(SearchStore(SearchAccess(product, "http://127.0.0.1:1"), INDEX))

    assert isinstance(failure, StoreUnreachable)
    assert f"{shown} at 127.0.0.1:1 does not answer" in str(failure)


def test_the_other_product_is_named() -> None:
    with a_search_server("opensearch") as server:
        failure = failure_of(SearchStore(SearchAccess("elasticsearch", server.url), INDEX))

    assert isinstance(failure, StoreUnfit)
    assert "write connector: opensearch" in str(failure)


def test_logins_rights_and_tls_of_elasticsearch(tmp_path: Path) -> None:
    with a_search_server("elasticsearch", secured=True) as search:
        assert search.ca is not None
        search.done("PUT", f"/{INDEX}")
        trusted = search.ca.read_text()

        def secured(
            user: str, password: str | None = None, ca: str | None = trusted
        ) -> SearchStore:
            known = password or PASSWORDS[user]
            return store_of(search, user=user, password=known, ca_certificates=ca)

        failure = failure_of(secured("writer", "wrong-1"))
        assert isinstance(failure, StoreLoginRefused)
        assert "refuses the login" in str(failure)
        assert "wrong-1" not in str(failure)
        assert isinstance(failure_of(store_of(search, ca_certificates=trusted)), StoreLoginRefused)
        # the rights that the page of the connector names are enough, and reading is not
        store = secured("writer")
        with store.connected() as connection:
            assert connection.faults(["v"]) == []
            connection.make_records()
        out = VersionedOutput(store, JOB, SINK, AttemptNumber(1), nullcontext)
        out.take_over()
        out.go_back(-1)
        written(out, 0, a="1", b=None)
        assert out.has(0)
        assert found(search) == {"a": "1"}
        failure = failure_of(secured("reader"))
        assert isinstance(failure, StoreLoginRefused)
        assert "the user may not do what the sink needs" in str(failure)
        # TLS is verified
        stranger = Authority(tmp_path / "wrong").certificate.read_text()
        for refused in (
            secured("writer", ca=stranger),
            secured("writer", ca=None),
            SearchStore(SearchAccess("elasticsearch", search.url.replace("https", "http")), INDEX),
        ):
            assert isinstance(failure_of(refused), StoreUnreachable)
