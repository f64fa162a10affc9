"""A job as a card in a notebook."""

from typing import Any, cast
from xml.etree import ElementTree

from jobmanager.client import answers, job_card

NODES = [
    {"id": "a", "parallelism": 1, "headgate-vertices": ["bids", "big"], "description": "<bids>"},
    {"id": "b", "parallelism": 2, "headgate-vertices": ["sums"], "description": "sums"}
    | {"inputs": [{"id": "a", "ship_strategy": "HASH"}]},
    {"id": "c", "parallelism": 1, "headgate-vertices": ["out"], "description": "out"}
    | {"inputs": [{"id": "a", "ship_strategy": "FORWARD"}, {"id": "b", "ship_strategy": "HASH"}]},
]
STATUS = {
    "state": "running",
    "since": "2026-11-16T12:00:00Z",
    "attempt": 2,
    "restarts": 1,
    "last_checkpoint": None,
    "reason": "a < b & c",
}


def a_card() -> str:
    plan = cast(answers.JobPlan, {"name": "<revenue>", "nodes": NODES})
    return job_card.card("3f", cast(answers.StatusResponse, STATUS), plan, "http://h/#/jobs/3f")


def test_the_card_is_well_formed_whatever_names_and_reasons_hold() -> None:
    card = ElementTree.fromstring(a_card())

    words = " ".join(card.itertext())
    assert "<revenue>" in words
    assert "a < b & c" in words
    assert "parallelism 2" in words
    assert len(card.findall(".//{http://www.w3.org/2000/svg}rect")) == 3
    assert len(card.findall(".//{http://www.w3.org/2000/svg}path")) == 3


def test_a_task_stands_right_of_all_that_it_reads() -> None:
    places = job_card.layout({"a": [], "b": ["a"], "c": ["a", "b"], "d": []})

    columns = {task: x for task, (x, _) in places.items()}
    assert columns["a"] == columns["d"] < columns["b"] < columns["c"]
    assert len(set(places.values())) == 4


def test_a_list_of_jobs_is_a_table() -> None:
    line: Any = {"name": "a&b", "jid": "3f", "state": "RUNNING", "headgate-state": "stalled"}

    table = job_card.jobs_table([line])

    assert "a&amp;b" in table
    assert "stalled" in table
