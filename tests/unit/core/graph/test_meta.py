from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document, meta
from jobmanager.core.graph.meta import JobMeta
from jobmanager.core.life.change import Change, Revision
from jobmanager.core.snapshots.upgrade import Verdict, plan_upgrade
from tests.support.builders import a_document, a_document_with

META = {
    "owner": "payments@example.org",
    "description": "Revenue of each auction.",
    "runbook": "https://wiki.example.org/revenue",
    "labels": {"team": "payments", "example.org/tier": "1"},
}


def faults_of(section: Any) -> list[str]:
    with pytest.raises(InvalidJobGraph) as refused:
        graph_document.parse(a_document(meta=section), is_new=True)
    return [str(fault) for fault in refused.value.faults]


def test_meta_is_read_and_may_be_missing() -> None:
    told = graph_document.parse(a_document(meta=META), is_new=True).meta
    assert told == JobMeta(**META)  # type: ignore[arg-type]
    assert graph_document.parse(a_document(), is_new=True).meta == JobMeta()


def test_stored_meta_is_read_as_it_was_checked() -> None:
    assert meta.stored(META) == graph_document.parse(a_document(meta=META)).meta
    assert meta.stored({"owner": "me"}) == JobMeta(owner="me")
    assert meta.stored(None) == JobMeta()


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ("payments", "meta: 'payments' is not a mapping"),
        ({"ower": "me"}, "meta.ower: unknown field 'ower': did you mean 'owner'?"),
        ({"owner": 7}, "meta.owner: 7 is not a text"),
        ({"owner": "x" * 256}, "meta.owner: 256 characters are too many: 255 at most"),
        (
            {"runbook": "javascript:alert(1)"},
            (
                "meta.runbook: 'javascript:alert(1)' is not a web address: "
                "it begins with https:// or http://"
            ),
        ),
        ({"labels": ["a"]}, "meta.labels: ['a'] is not a mapping name: text"),
        ({"labels": {"tier": 1}}, "meta.labels.tier: 1 is not a text: write it in quotes"),
        ({"labels": {"t": "x" * 256}}, "meta.labels.t: 256 characters are too many: 255 at most"),
        (
            {"labels": {"a b": "x"}},
            (
                "meta.labels: 'a b' is not the name of a label: up to 63 letters, digits, and "
                "between them _ . / -"
            ),
        ),
        (
            {"labels": {f"l{n}": "x" for n in range(33)}},
            "meta.labels: 33 are too many: 32 at most",
        ),
    ],
)
def test_meta_that_is_wrong_is_told(section: Any, fault: str) -> None:
    assert faults_of(section) == [fault]


def test_a_secret_has_no_place_in_meta() -> None:
    assert any("a secret cannot be used here" in one for one in faults_of({"owner": "${secret:x}"}))


def change(before: dict[str, Any], after: dict[str, Any], parallelism: int = 2) -> Change:
    return Change(Revision(1, before, 2), Revision(2, after, parallelism))


def test_only_a_change_of_meta_alone_needs_no_restart() -> None:
    plain, described = a_document(), a_document(meta=META)
    other = a_document_with("big", where="price > 500")

    assert not change(plain, described).needs_restart
    assert not change(described, a_document(meta={**META, "owner": "someone else"})).needs_restart
    assert change(plain, described, parallelism=4).needs_restart
    assert change(plain, {**other, "meta": META}).needs_restart
    assert change(plain, plain).needs_restart


def test_another_order_of_columns_is_more_than_meta() -> None:
    columns = {"ts": "ts", "price": "id", "auction": "id % 5"}
    reordered = {**a_document_with("bids", columns=columns), "meta": META}

    assert change(a_document(), reordered).needs_restart


def test_the_plan_of_a_change_of_meta_keeps_everything() -> None:
    plan = plan_upgrade(change(a_document(), a_document(meta=META)))

    assert (plan.verdict, plan.needs_restart) == (Verdict.COMPATIBLE, False)
    assert [(one.field, one.before, one.after) for one in plan.changes] == [("meta", None, META)]
