from typing import Any

from jobmanager.core.life.change import Change, Revision
from jobmanager.core.snapshots.fit import Fate
from jobmanager.core.snapshots.upgrade import SparkVerdict, UpgradePlan, Verdict, plan_upgrade
from tests.support.builders import a_document, a_document_with


def plan(
    after: dict[str, Any], *spark: SparkVerdict, before: dict[str, Any] | None = None, **flags: bool
) -> UpgradePlan:
    old = Revision(1, before or a_document(), 2)
    return plan_upgrade(Change(old, Revision(2, after, 2), **flags), spark)


def with_second_sink() -> dict[str, Any]:
    document = a_document()
    document["vertices"].append(
        {"id": "raw", "op": "sink", "inputs": ["big"], "connector": "blackhole"}
    )
    return document


def test_the_same_graph_is_compatible_and_changes_nothing() -> None:
    found = plan(a_document())

    assert (found.verdict, found.reasons, found.changes) == (Verdict.COMPATIBLE, [], [])


def test_every_changed_field_is_named() -> None:
    found = plan({**a_document_with("big", where="price > 1"), "checkpointing": {"retained": 5}})

    named = [(one.vertex, one.field) for one in found.changes]
    assert named == [(None, "checkpointing"), ("big", "where")]


def test_a_vertex_that_comes_or_goes_is_one_change() -> None:
    found = plan(with_second_sink())

    assert [(one.vertex, one.field, one.before) for one in found.changes] == [("raw", "", None)]


def test_a_new_region_starts_empty_and_the_others_keep_their_state() -> None:
    found = plan(with_second_sink())

    fates = {(one.region, one.vertex): one.fate for one in found.states}
    assert fates == {("out", "revenue"): Fate.KEPT, ("raw", None): Fate.GAINED}
    assert found.verdict is Verdict.COMPATIBLE


def test_a_region_that_goes_needs_the_flag() -> None:
    found = plan(a_document(), before=with_second_sink())
    meant = plan(a_document(), before=with_second_sink(), allow_non_restored_state=True)

    assert (found.verdict, meant.verdict) == (Verdict.NEEDS_FLAG, Verdict.COMPATIBLE)
    assert "region raw: the offsets would be left behind" in found.reasons[0]


def test_another_keyed_vertex_in_a_region_with_state_is_impossible() -> None:
    document = a_document()
    hourly = {**document["vertices"][2], "id": "hourly", "window": {"tumbling": "1h"}}
    both = {"id": "both", "op": "union", "inputs": ["hourly", "revenue"]}
    document["vertices"][3:3] = [hourly, both]
    document["vertices"][-1]["inputs"] = ["both"]

    found = plan(document)

    assert found.verdict is Verdict.IMPOSSIBLE
    [told] = [one for one in found.reasons if "keyed state" in one]
    assert "region out has keyed state of revenue and would have hourly, revenue" in told


def test_another_order_of_sources_is_impossible() -> None:
    document = a_document()
    other = {**document["vertices"][0], "id": "asks"}
    document["vertices"].insert(1, other)
    document["vertices"][2]["inputs"] = ["both"]
    document["vertices"].insert(2, {"id": "both", "op": "union", "inputs": ["bids", "asks"]})

    found = plan(document)

    assert found.verdict is Verdict.IMPOSSIBLE
    assert "reads from bids in the state and from bids, asks in the graph" in found.reasons[0]


def test_the_number_of_key_groups_never_changes() -> None:
    found = plan({**a_document(), "max_parallelism": 360})

    assert found.verdict is Verdict.IMPOSSIBLE
    assert "max_parallelism is 720 in the state and 360 in the graph" in found.reasons[0]


def test_what_spark_refuses_is_impossible_whatever_the_flags() -> None:
    refused = SparkVerdict("out", accepted=False, error="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE")

    found = plan(a_document(), refused, allow_non_restored_state=True)

    assert found.verdict is Verdict.IMPOSSIBLE
    assert found.reasons == [
        "region out: Spark refuses it: STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
    ]
