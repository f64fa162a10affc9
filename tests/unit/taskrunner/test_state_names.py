import json

from jobmanager.core.ids import VertexId
from taskrunner.core.state_names import NamedState, Store, named_states

SUMS, PAIRS = VertexId("sums"), VertexId("pairs")


def a_store(
    operator: int = 0,
    operator_name: str = "stateStoreSave",
    name: str = "default",
    properties: str | None = None,
) -> Store:
    return Store(operator, operator_name, name, 2, properties)


def shown(states: list[NamedState]) -> list[tuple[str, str]]:
    return [(state.vertex, state.name) for state in states]


def test_a_store_is_a_state_of_the_vertex_in_its_place() -> None:
    [pairs, sums] = named_states([a_store(1), a_store(0)], [PAIRS, SUMS])
    assert shown([pairs, sums]) == [("pairs", "default"), ("sums", "default")]
    assert sums.options == {"operatorId": "1", "storeName": "default"}


def test_a_join_has_a_state_for_each_side() -> None:
    stores = [
        a_store(0, "symmetricHashJoin", name)
        for name in ("left-keyToNumValues", "right-keyToNumValues", "left-keyWithIndexToValue")
    ]
    states = named_states(stores, [PAIRS])
    assert shown(states) == [("pairs", "left"), ("pairs", "right")]
    assert states[1].options == {"operatorId": "0", "joinSide": "right"}


def test_each_state_variable_is_a_state_but_none_of_spark_itself() -> None:
    variables = [{"stateName": "seen"}, {"stateName": "$procTimers_keyToTimestamp"}]
    properties = json.dumps({"timeMode": "None", "stateVariables": variables})
    [seen] = named_states([a_store(0, "transformWithStateExec", properties=properties)], [SUMS])
    assert (seen.name, seen.column_family) == ("seen", "seen")
    assert seen.options == {"operatorId": "0", "stateVarName": "seen"}


def test_a_vertex_that_is_reached_along_two_paths_has_its_state_twice() -> None:
    assert shown(named_states([a_store(0), a_store(1)], [SUMS, SUMS])) == [
        ("sums", "default"),
        ("sums", "default-2"),
    ]


def test_an_operator_without_a_vertex_is_left_out() -> None:
    assert shown(named_states([a_store(0), a_store(1)], [SUMS])) == [("sums", "default")]
