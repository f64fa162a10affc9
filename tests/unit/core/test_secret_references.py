"""`${secret:name}` in a graph: where it may be, and what comes in its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from jobmanager.core.access.graph_rules import role_of_graph
from jobmanager.core.access.roles import Role
from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.secret_references import fault, filled, names_in, variable_of
from taskrunner.core.secret_fields import with_secrets
from tests.support.builders import a_document


class Shade(StrEnum):
    GREY = "${secret:grey}"


@dataclass(frozen=True)
class Loft:
    url: str
    birds: tuple[str, ...]
    options: Mapping[str, Any]
    shade: Shade = Shade.GREY
    size: int = 3


def shouted(name: str) -> str:
    return name.upper()


def test_a_reference_is_replaced_wherever_it_is() -> None:
    loft = Loft("x?p=${secret:pw}&q=${secret:q}", ("${secret:a}", "b"), {"k": {"l": "${secret:m}"}})

    found = filled(loft, shouted)

    assert found == Loft("x?p=PW&q=Q", ("A", "b"), {"k": {"l": "M"}})
    assert loft.birds == ("${secret:a}", "b")


def test_a_secret_that_looks_like_a_reference_is_not_replaced_again() -> None:
    assert filled("${secret:a}", lambda name: "${secret:b}") == "${secret:b}"


@pytest.mark.parametrize("text", ["${secret:}", "${secret:a b}", "${secret:../x}", "${secret:a"])
def test_what_is_no_reference_is_a_fault_and_names_no_secret(text: str) -> None:
    assert "${secret:name}" in (fault(text) or "")
    assert names_in(text) == []


def test_a_variable_has_capital_letters() -> None:
    assert variable_of("orders-db.password2") == "HEADGATE_SECRET_ORDERS_DB_PASSWORD2"


def with_option(value: str) -> dict[str, Any]:
    document = a_document()
    document["vertices"][0]["options"] = {"password": value}
    return document


def faults_of(document: dict[str, Any]) -> list[tuple[str | None, str]]:
    with pytest.raises(InvalidJobGraph) as refused:
        graph_document.parse(document, is_new=True)
    return [(one.vertex, one.field) for one in refused.value.faults]


def test_options_of_a_source_may_refer_to_a_secret() -> None:
    graph = graph_document.parse(with_option("${secret:pw}"), is_new=True)

    assert graph.vertices[0].options == {"password": "${secret:pw}"}  # type: ignore[attr-defined]


def test_a_reference_in_another_place_is_refused() -> None:
    in_settings, in_columns, in_a_filter = a_document(), a_document(), a_document()
    in_settings["spark"] = {"spark.sql.x": "${secret:pw}"}
    source = in_columns["vertices"][0]
    source["columns"] = {**source["columns"], "stolen": "'${secret:pw}'"}
    in_a_filter["vertices"][1]["where"] = "price > 100 AND '${secret:pw}' <> ''"

    assert faults_of(in_settings) == [(None, "spark.spark.sql.x")]
    assert faults_of(in_columns) == [(source["id"], "columns.stolen")]
    assert faults_of(in_a_filter) == [(in_a_filter["vertices"][1]["id"], "where")]
    assert faults_of(with_option("${secret:p w}"))[0][1] == "options.password"


def test_a_graph_that_refers_to_a_secret_needs_a_developer() -> None:
    plain, secret = with_option("x"), with_option("${secret:pw}")

    assert role_of_graph(plain, graph_document.parse(plain))[0] is Role.OPERATOR
    role, why = role_of_graph(secret, graph_document.parse(secret))
    assert role is Role.DEVELOPER
    assert "uses the secret 'pw'" in why


def test_the_password_of_a_database_is_a_reference_that_only_the_runner_fills_in() -> None:
    document = a_document()
    document["vertices"][-1] = {
        "id": "out",
        "op": "sink",
        "inputs": document["vertices"][-1]["inputs"],
        "connector": "jdbc",
        "url": "jdbc:postgresql://db.example.org/shop",
        "user": "writer",
        "password": "${secret:shop}",
        "table": "totals",
    }
    sink = graph_document.parse(document, is_new=True).vertices[-1]
    assert isinstance(sink, Sink)

    found = with_secrets(sink, lambda name: f"the {name} password")

    assert "the shop password" in repr(found.connector)
    assert "the shop password" not in repr(sink.connector)
    assert faults_of(document | {"name": "${secret:shop}"}) == [(None, "name")]
