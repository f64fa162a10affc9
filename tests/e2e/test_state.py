"""Queryable state with everything real, compared with sums in plain Python."""

import json
import os
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import jobmanager.client.state_commands  # noqa: F401 - adds its command to the app
from jobmanager.client import exit_codes
from jobmanager.client.cli import app, run
from jobmanager.launchers import processes
from tests.e2e.test_savepoints import take
from tests.support.server import ServerProcess, eventually

START = datetime(2026, 1, 1, tzinfo=UTC)
AUCTIONS = 23
ROWS: list[dict[str, Any]] = [
    {
        "auction": n * n % AUCTIONS,
        "price": n * 37 % 101,
        "ts": (START + timedelta(seconds=n // 10)).isoformat(),
    }
    for n in range(500)
] + [{"auction": None, "price": 7, "ts": START.isoformat()}]
WINDOW = timedelta(seconds=10)
JOB = {
    "name": "queryable",
    "parallelism": 2,
    "max_parallelism": 12,
    "checkpointing": {"interval": "2s"},
    "vertices": [
        {
            "id": "bids",
            "op": "source",
            "connector": "files",
            "format": "json",
            "path": "bids",
            "schema": "auction BIGINT, price BIGINT, ts TIMESTAMP",
            "watermark": {"column": "ts", "delay": "1h"},
        },
        {
            "id": "totals",
            "op": "aggregate",
            "inputs": ["bids"],
            "key": ["auction"],
            "aggregate": {"bids": "count(*)", "revenue": "sum(price)", "mean": "avg(price)"},
        },
        {
            "id": "tops",
            "op": "window",
            "inputs": ["bids"],
            "key": ["auction"],
            "window": {"tumbling": "10s"},
            "aggregate": {"bids": "count(*)", "top": "max(price)"},
        },
        {"id": "a", "op": "sink", "inputs": ["totals"], "connector": "blackhole"},
        {"id": "b", "op": "sink", "inputs": ["tops"], "connector": "blackhole"},
    ],
}


def prices() -> dict[int | None, list[int]]:
    found: dict[int | None, list[int]] = defaultdict(list)
    for row in ROWS:
        found[row["auction"]].append(row["price"])
    return found


def windows() -> dict[tuple[int | None, datetime], list[int]]:
    found: dict[tuple[int | None, datetime], list[int]] = defaultdict(list)
    for row in ROWS:
        at = datetime.fromisoformat(row["ts"]) - START
        found[row["auction"], START + at // WINDOW * WINDOW].append(row["price"])
    return found


def of_window(row: dict[str, Any]) -> tuple[tuple[int | None, datetime], tuple[int, int]]:
    key, value = row["key"], row["value"]
    start, end = (datetime.fromisoformat(key[name]) for name in ("window_start", "window_end"))
    assert end - start == WINDOW
    return (key["auction"], start), (value["bids"], value["top"])


def pages(server: ServerProcess, path: str, limit: int) -> Iterator[dict[str, Any]]:
    page = server.get(f"{path}?limit={limit}")
    yield page
    while page["next"]:
        page = server.get(f"{path}?limit={limit}&cursor={page['next']}")
        yield page


def has_read_all(server: ServerProcess, job: str) -> bool:
    regions = server.status(job)["region_states"]
    return len(regions) == 2 and all(one["input_rows"] == len(ROWS) for one in regions)


@pytest.fixture(autouse=True)
def patient(server: ServerProcess) -> None:
    server.http.timeout = httpx.Timeout(150)


@pytest.mark.long
def test_state_is_read_from_the_last_checkpoint_and_from_a_savepoint(
    server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    (server.directory / "data" / "bids").mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (server.directory / "data" / "bids" / "1.json").write_text(lines)
    job = server.submit(JOB)
    too_early = server.http.get(f"/v1/jobs/{job}/state")
    assert (too_early.status_code, too_early.json()["type"]) == (409, "/problems/NoStateYet")
    server.until_state(job, "running")
    eventually(lambda: has_read_all(server, job), within=60)
    server.until_checkpoint(job, server.http.post(f"/v1/jobs/{job}/checkpoints").json()["number"])

    an_inspector_that_is_killed_is_replaced(server, job)
    states_have_names_and_schemas(server, job)
    keys_are_what_plain_python_says(server, job)
    pages_are_all_rows_once(server, f"/v1/jobs/{job}/state")
    key_groups_are_where_the_map_says(server, job)
    what_is_not_there_is_said(server, job)
    the_command_line_shows_it(server, job, capsys)

    # The same of a savepoint, when the job is gone.
    savepoint = take(server, job, "savepoints", **{"cancel-job": True})["result"]["savepoint"]
    server.until_state(job, "cancelled")
    assert len(server.get(f"/v1/savepoints/{savepoint}/state")["items"]) == 2
    pages_are_all_rows_once(server, f"/v1/savepoints/{savepoint}/state")
    of_key = server.get(f"/v1/savepoints/{savepoint}/state/totals/default/3")
    assert (of_key["savepoint"], of_key["value"]["sum"]) == (savepoint, sum(prices()[3]))
    server.http.delete(f"/v1/savepoints/{savepoint}")
    disposed = server.http.get(f"/v1/savepoints/{savepoint}/state")
    assert (disposed.status_code, "is disposed" in disposed.json()["detail"]) == (409, True)

    # Nothing of the inspector outlives the server: no process, no copy.
    pid = server.get("/v1/inspector")["pid"]
    mark = next(one for one in environment(pid) if one.startswith(processes.MARKER.encode()))
    assert server.stop() == 0
    assert [pid for pid in psutil.pids() if mark in environment(pid)] == []
    assert [one.name for one in (server.directory / "storage/inspector").iterdir()] == ["lock"]


def an_inspector_that_is_killed_is_replaced(server: ServerProcess, job: str) -> None:
    answers: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: answers.append(server.http.get(f"/v1/jobs/{job}/state"))
    )
    asking.start()
    pid = eventually(lambda: server.get("/v1/inspector")["pid"], within=30)
    os.kill(pid, signal.SIGKILL)
    asking.join()
    [answer] = answers
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/InspectorUnavailable")
    assert "killed by SIGKILL" in answer.json()["detail"]


def states_have_names_and_schemas(server: ServerProcess, job: str) -> None:
    listed = server.get(f"/v1/jobs/{job}/state")
    assert server.get("/v1/inspector")["state"] == "ready"
    assert listed["checkpoint"] <= server.status(job)["last_checkpoint"]["number"]
    found = {one["vertex"]: one for one in listed["items"]}
    assert found["totals"]["key_schema"] == "auction BIGINT"
    # avg keeps two values: which result each value belongs to is not certain any more
    assert found["totals"]["value_schema"] == (
        "count BIGINT, sum BIGINT, sum_2 DOUBLE, count_2 BIGINT"
    )
    assert found["tops"]["name"] == "default"
    assert found["tops"]["key_schema"] == (
        "window_start TIMESTAMP, window_end TIMESTAMP, auction BIGINT"
    )
    assert found["tops"]["value_schema"] == "bids BIGINT, top BIGINT"


def keys_are_what_plain_python_says(server: ServerProcess, job: str) -> None:
    path = f"/v1/jobs/{job}/state"
    expected = prices()
    for auction, key in ((3, "3"), (2, '{"auction": 2}'), (None, '{"auction": null}')):
        found = server.get(f"{path}/totals/default/{key}")
        assert found["key"] == {"auction": auction}
        assert (found["value"]["count"], found["value"]["sum"]) == (
            len(expected[auction]),
            sum(expected[auction]),
        )
        assert found["subtask"] == found["key_group"] % 2
    # A key has a row for each of its windows; a window's start makes it one.
    mine = {key: value for key, value in windows().items() if key[0] == 3}
    found = server.get(f"{path}/tops/default/3")
    assert dict(of_window(row) for row in found["items"]) == {
        key: (len(bids), max(bids)) for key, bids in mine.items()
    }
    (_, start), bids = next(iter(mine.items()))
    one = json.dumps({"auction": 3, "window_start": start.isoformat()})
    assert server.get(f"{path}/tops/default/{one}")["value"] == {
        "bids": len(bids),
        "top": max(bids),
    }


def pages_are_all_rows_once(server: ServerProcess, path: str) -> None:
    found = list(pages(server, f"{path}/tops/default", 37))
    assert len({page["checkpoint"] for page in found}) == 1
    rows = [of_window(row) for page in found for row in page["items"]]
    assert len(rows) == len(dict(rows))
    assert dict(rows) == {key: (len(bids), max(bids)) for key, bids in windows().items()}
    places = [(row["subtask"], row["key"]["window_start"]) for p in found for row in p["items"]]
    assert places == sorted(places)


def key_groups_are_where_the_map_says(server: ServerProcess, job: str) -> None:
    found = server.get(f"/v1/jobs/{job}/state/tops/default/key-groups")
    assert sum(group["rows"] for group in found["groups"]) == len(windows())
    assert len(found["groups"]) + found["empty_groups"] == found["max_parallelism"] == 12
    most = max(group["rows"] for group in found["groups"])
    assert found["skew"]["rows"] == pytest.approx(most / (len(windows()) / 12))
    assert all(group["bytes"] > 0 for group in found["groups"])
    owners = {
        (one["vertex"], group): subtask["subtask"]
        for one in server.get(f"/v1/jobs/{job}/key-groups")["vertices"]
        for subtask in one["subtasks"]
        for group in subtask["key_groups"]
    }
    assert all(owners["tops", one["key_group"]] == one["subtask"] for one in found["groups"])


def what_is_not_there_is_said(server: ServerProcess, job: str) -> None:
    for path, status, told in (
        ("bids/default", 404, "it has state of tops, totals"),
        ("totals/other", 404, "there is: totals/default"),
        ("totals/default/99", 404, "no rows of key '99'"),
        ("totals/default/many", 422, "'many' is no BIGINT: the key columns are auction BIGINT"),
        ('totals/default/{"bidder": 1}', 422, "there is no key column 'bidder'"),
        ("totals/default?cursor=x", 400, "cursor 'x'"),
        ("totals/default?cursor=99.0.0", 409, "start the scan again"),
    ):
        answer = server.http.get(f"/v1/jobs/{job}/state/{path}")
        assert (answer.status_code, told in answer.json()["detail"]) == (status, True), answer.text


def the_command_line_shows_it(
    server: ServerProcess, job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, shown in (
        ((job,), "auction BIGINT"),
        ((job, "totals", "--key", "3"), str(sum(prices()[3]))),
        ((job, "totals", "--limit", "2"), "there is more: --cursor"),
        ((job, "tops", "--key-groups"), "times the mean"),
    ):
        assert run(app, ["state", *arguments, "--url", server.url]) == 0
        said = capsys.readouterr()
        assert "from checkpoint" in said.out
        assert shown in said.out
    assert run(app, ["state", job, "nothing", "--url", server.url]) == exit_codes.NOT_FOUND


def environment(pid: int) -> set[bytes]:
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()
