from taskrunner.core.delta_protocol import DeltaProtocol, read_obstacles, write_obstacles

PLAIN = DeltaProtocol({}, [{"name": "id", "metadata": {}}])


def test_a_plain_table_has_no_obstacles() -> None:
    assert write_obstacles(PLAIN) == []
    assert read_obstacles(PLAIN, has_deletion_vectors=False) == []


def test_a_feature_matters_only_if_it_is_in_use() -> None:
    able = ["columnMapping", "checkConstraints", "deletionVectors"]
    table = DeltaProtocol({}, PLAIN.fields, able, ["columnMapping", "deletionVectors"])
    assert write_obstacles(table) == []
    assert read_obstacles(table, has_deletion_vectors=False) == []


def test_every_obstacle_is_named() -> None:
    table = DeltaProtocol(
        {"delta.constraints.positive": "v > 0", "delta.columnMapping.mode": "name"},
        [
            {"name": "a", "metadata": {"delta.generationExpression": "b + 1"}},
            {"name": "b", "metadata": {"delta.identity.start": 1}},
            {"name": "c", "metadata": {"delta.invariants": "{}"}},
        ],
        ["rowTracking"],
        ["variantType"],
    )
    assert write_obstacles(table) == [
        "the feature rowTracking",
        "columns under other names (delta.columnMapping.mode)",
        "the constraint positive",
        "the generated column a",
        "the identity column b",
        "the invariant of column c",
    ]
    found = read_obstacles(table, has_deletion_vectors=True)
    assert [one.split(" (")[0] for one in found] == [
        "the feature variantType",
        "columns under other names",
        "deletion vectors",
    ]
