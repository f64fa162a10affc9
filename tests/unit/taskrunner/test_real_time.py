"""Real-time jobs in the runner: slots, the log, and the names of operators."""

import json
from pathlib import Path

import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.ids import VertexId
from taskrunner.core.real_time_slots import needed, slots_of, told
from taskrunner.snapshots.operator_names import use_names_of_batches
from taskrunner.snapshots.real_time_log import RealTimeLog
from taskrunner.spark.run.real_time_session import local_slots
from tests.unit.core.graph.test_real_time_document import (
    a_document,
    a_sink,
    a_source,
    a_table,
    an_aggregate,
)


def partitions(**counts: int) -> dict[VertexId, int]:
    return {VertexId(name): count for name, count in counts.items()}


def test_a_stateless_query_needs_a_slot_for_each_partition() -> None:
    graph = graph_document.parse(a_document(a_source(), a_sink("bids"), parallelism=2))

    assert needed(slots_of(graph, 2, partitions(bids=5))) == 5


def test_the_tasks_of_all_stages_and_regions_are_added_up() -> None:
    graph = graph_document.parse(
        a_document(
            a_source(),
            a_source("more"),
            a_table("titles"),
            {"id": "all", "op": "union", "inputs": ["bids", "more"]},
            {"id": "named", "op": "join", "inputs": ["all", "titles"], "on": ["auction"]},
            an_aggregate("named"),
            a_sink("sums"),
            a_sink({"from": "bids", "ship": "rebalance"}, id="copy", topic="c", parallelism=4),
            parallelism=3,
        )
    )

    uses = slots_of(graph, 3, partitions(bids=5, more=2))

    # region out: 5 + 2 partitions, 3 subtasks, 1 for the static side; region copy: 5 and 4
    assert needed(uses) == 5 + 2 + 3 + 1 + 5 + 4
    assert told(uses).startswith("20 slots (5 for the partitions of source 'bids' of region out")


def test_an_aggregate_without_key_has_one_task() -> None:
    total = {"id": "n", "op": "aggregate", "inputs": ["bids"], "aggregate": {"n": "count(*)"}}
    graph = graph_document.parse(a_document(a_source(), total, a_sink("n"), parallelism=4))

    assert needed(slots_of(graph, 4, partitions(bids=1))) == 2


@pytest.mark.parametrize(
    ("master", "slots"),
    [("local", 1), ("local[3]", 3), ("local[3, 2]", 3), ("spark://host:7077", None), ("", None)],
)
def test_the_slots_of_a_master(master: str, slots: int | None) -> None:
    assert local_slots(master) == slots


def test_a_query_is_in_the_batch_after_the_last_commit(tmp_path: Path) -> None:
    log = RealTimeLog(tmp_path)
    assert log.last_begun() == 0

    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "7").write_text("v2\n{}")

    assert (log.last_committed(), log.last_begun()) == (7, 8)


def test_an_aggregation_gets_its_name_of_micro_batches_and_links_keep_theirs(
    tmp_path: Path,
) -> None:
    operator = {"operatorInfo": {"operatorId": 0, "operatorName": "StatefulStreamlineAggregate"}}
    text = "v1\n" + json.dumps(operator)
    home = tmp_path / "clone" / "state" / "0" / "_metadata"
    home.mkdir(parents=True)
    saved = tmp_path / "saved"
    saved.write_text(text)
    (home / "metadata").hardlink_to(saved)
    (home / ".metadata.crc").write_bytes(b"of the old text")

    use_names_of_batches(tmp_path / "clone")

    assert '"operatorName": "stateStoreSave"' in (home / "metadata").read_text()
    assert not (home / ".metadata.crc").exists()
    assert saved.read_text() == text
