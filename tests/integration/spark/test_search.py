"""The connectors `opensearch` and `elasticsearch` on real servers: documents, changes, failures."""

from collections.abc import Iterator
from typing import Any

import pytest

from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.core.store_failures import RowsRefused, RowsWithoutKey
from taskrunner.reports import failure_of
from tests.integration.spark.jobs import JobUnderTest, Row, table
from tests.support.search_server import PASSWORDS, SearchUnderTest, a_search_server

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["opensearch", "elasticsearch"])
def server(request: pytest.FixtureRequest) -> Iterator[SearchUnderTest]:
    with a_search_server(request.param) as running:
        yield running


@pytest.fixture
def search(server: SearchUnderTest) -> SearchUnderTest:
    server.empty()
    server.done("PUT", "/orders")
    return server


def rows(*values: tuple[int | None, str, int | None]) -> list[Row]:
    return [{"id": id, "k": k, "v": v, "ts": "2026-01-31T12:00:00Z"} for id, k, v in values]


def copied(
    job: JobUnderTest, search: SearchUnderTest, found: list[Row], *between: Row, **fields: Any
) -> None:
    """Runs a batch job that writes the rows to the index `orders`."""
    after = between[-1]["id"] if between else "rows"
    out = {"id": "out", "op": "sink", "inputs": [after], "connector": search.product}
    sink = {**out, "url": search.url, "index": "orders", "key": ["id"], **fields}
    job.define(table(found), *between, sink, mode="batch").run()


def mapped(**select: str) -> Row:
    return {"id": "shaped", "op": "map", "inputs": ["rows"], "select": select}


def test_a_document_has_all_columns_as_json(job: JobUnderTest, search: SearchUnderTest) -> None:
    shape = mapped(
        id="id",
        price="cast(v / 4 as decimal(10,2))",
        at="ts",
        tags="array(k, 'x')",
        more="named_struct('k', k)",
        paid="v > 1",
    )

    copied(job, search, rows((1, "a", 2), (2, "b", None)), shape)

    at = "2026-01-31T12:00:00.000000Z"
    assert search.documents("orders") == {
        "1": {
            "id": 1,
            "price": 0.5,
            "at": at,
            "tags": ["a", "x"],
            "more": {"k": "a"},
            "paid": True,
        },
        "2": {
            "id": 2,
            "price": None,
            "at": at,
            "tags": ["b", "x"],
            "more": {"k": "b"},
            "paid": None,
        },
    }


def test_a_thousand_rows_are_what_they_were_with_small_requests_too(
    job: JobUnderTest, search: SearchUnderTest
) -> None:
    many = rows(*((n, f"k{n % 7}", n * n) for n in range(1000)))

    copied(job, search, many, batch_size=37)

    found = search.documents("orders")
    assert {key: (one["id"], one["k"], one["v"]) for key, one in found.items()} == {
        str(n): (n, f"k{n % 7}", n * n) for n in range(1000)
    }


def test_captured_changes_are_written_in_their_order_and_deletes_delete(
    job: JobUnderTest, search: SearchUnderTest
) -> None:
    copied(job, search, rows((1, "before", 0), (2, "before", 0)))
    other = job.successor()
    changes = rows((1, "c", 1), (1, "d", 2), (2, "d", 3), (2, "u", 4), (3, "c", 1), (3, "u", 2))
    shape = mapped(id="id", op="k", at="v", name="concat('name ', v)")

    copied(other, search, changes, shape, op_column="op", order_by=["at"])

    assert search.documents("orders") == {
        "2": {"id": 2, "at": 4, "name": "name 4"},
        "3": {"id": 3, "at": 2, "name": "name 2"},
    }


def test_mode_delete_deletes_and_several_columns_make_a_key(
    job: JobUnderTest, search: SearchUnderTest
) -> None:
    copied(job, search, rows((1, "a:b", 1), (2, "b", 1)), key=["id", "k"])
    assert set(search.documents("orders")) == {"1:a%3Ab", "2:b"}

    other = job.successor()
    copied(other, search, rows((2, "b", 9), (3, "c", 9)), key=["id", "k"], mode="delete")
    assert set(search.documents("orders")) == {"1:a%3Ab"}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (rows((1, "a", 1), (1, "b", 2)), r"2 rows have the key '1' \(id\) and differ"),
        (rows((None, "a", 1)), r"1 rows have a null in the key \(id\)"),
    ],
)
def test_rows_that_do_not_fit_the_key_fail_the_job(
    job: JobUnderTest, search: SearchUnderTest, found: list[Row], message: str
) -> None:
    with pytest.raises(RowsWithoutKey, match=f"sink out, batch 0: {message}") as failed:
        copied(job, search, found)

    assert failure_of(failed.value).kind == "data"


def test_a_value_that_the_mapping_refuses_fails_the_job_by_name(
    job: JobUnderTest, search: SearchUnderTest
) -> None:
    search.done("PUT", "/orders/_mapping", {"properties": {"k": {"type": "long"}}})

    with pytest.raises(RowsRefused, match="1 rows, the first with the key '2'") as failed:
        copied(job, search, rows((1, "17", 1), (2, "no number", 1)))

    assert failure_of(failed.value).kind == "data"


def test_an_index_that_is_absent_or_strict_refuses_the_job_at_its_start(
    job: JobUnderTest, search: SearchUnderTest
) -> None:
    with pytest.raises(InvalidVertex, match="has no index 'nowhere': create the index"):
        copied(job, search, rows((1, "a", 1)), index="nowhere")
    strict = {"dynamic": "strict", "properties": {"id": {"type": "long"}}}
    search.done("PUT", "/narrow", {"mappings": strict})

    with pytest.raises(InvalidVertex, match=r"no field 'k'.*no field 'v'.*no field 'ts'"):
        copied(job.successor(), search, rows((1, "a", 1)), index="narrow")

    assert search.documents("narrow") == {}


def test_passwords_reach_the_tasks_and_tls_is_spoken(job: JobUnderTest) -> None:
    with a_search_server("elasticsearch", secured=True) as search:
        search.done("PUT", "/orders")
        login = {"user": "writer", "password": PASSWORDS["writer"]}
        copied(job, search, rows((1, "a", 1)), ca=str(search.ca), **login)
        assert search.documents("orders")["1"]["k"] == "a"
