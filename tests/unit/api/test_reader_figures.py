"""Figures of reader processes are added to those of the server's own process."""

import json

from prometheus_client import CollectorRegistry, Histogram

from jobmanager.api.reader_figures import (
    FiguresOfReaders,
    ReaderFigures,
    figures_in,
    samples_of,
)

NAME = "headgate_http_request_duration_seconds"


def a_registry(*routes: str) -> CollectorRegistry:
    registry = CollectorRegistry()
    requests = Histogram(NAME, "…", ["route"], buckets=(0.1, 1), registry=registry)
    for route in routes:
        requests.labels(route).observe(0.5)
    return registry


def figures(*routes: str, **changes: object) -> ReaderFigures:
    told = {
        "pid": 7, "cpu_seconds": 1.5, "resident_bytes": 1000, "phases": {"kept": 2},
        "closed": {"evicted": 1}, "requests": samples_of(a_registry(*routes).collect()),
    }  # fmt: skip
    return ReaderFigures(**{**told, **changes})  # type: ignore[arg-type]


def shown(readers: FiguresOfReaders, own: CollectorRegistry) -> dict[tuple[str, str], float]:
    return {
        (one.name, one.labels.get("route", "") + one.labels.get("le", "")): one.value
        for family in readers.with_requests(own.collect())
        for one in family.samples
        if not one.name.endswith("_created")
    }


def test_a_report_survives_the_channel() -> None:
    told = figures("/jobs")
    assert figures_in(json.loads(json.dumps(told.told()))) == told


def test_requests_of_all_processes_are_summed_and_never_go_down() -> None:
    readers = FiguresOfReaders(wanted=2)
    readers.current = {1: figures("/jobs", "/jobs"), 2: figures("/jobs", "/overview")}
    own = a_registry("/jobs", "/metrics")

    before = shown(readers, own)
    readers.ended(1)
    after = shown(readers, own)

    assert before == after
    assert before[f"{NAME}_count", "/jobs"] == 4
    assert before[f"{NAME}_bucket", "/jobs0.1"] == 0
    assert before[f"{NAME}_bucket", "/jobs1.0"] == 4
    assert before[f"{NAME}_sum", "/overview"] == 0.5
    assert before[f"{NAME}_count", "/metrics"] == 1
    assert readers.closed() == {"evicted": 2}
    assert readers.phases() == {"kept": 2}


def test_a_server_without_readers_shows_none() -> None:
    assert list(FiguresOfReaders().metrics()) == []
    assert [one.name for one in FiguresOfReaders(wanted=1).metrics()][:2] == [
        "headgate_readers",
        "headgate_readers_ready",
    ]
