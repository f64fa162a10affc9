"""Pipelines of Spark ML: fitted in batch, saved, and applied to a stream."""

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy
import pytest

from taskrunner.core.invalid_vertex import InvalidVertex
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink

DICE = random.Random(5)
LINEAR: list[Row] = [
    {"id": n, "a": DICE.uniform(-3, 3), "b": DICE.uniform(0, 10), "y": 0.0} for n in range(60)
]
for _row in LINEAR:
    _row["y"] = 2 * _row["a"] ** 2 - 3 * _row["b"] + 7 + DICE.gauss(0, 0.1)
TRAIN, TEST = LINEAR[:45], LINEAR[45:]


def table(vertex_id: str, rows: list[Row], schema: str) -> Row:
    source = {"id": vertex_id, "op": "source", "connector": "table"}
    return {**source, "schema": schema, "rows": rows}


def numbers(vertex_id: str, rows: list[Row]) -> Row:
    return table(vertex_id, rows, "id INT, a DOUBLE, b DOUBLE, y DOUBLE")


def fit(**fields: Any) -> Row:
    return {"id": "model", "op": "ml", "inputs": ["train", "test"], "fit": "train", **fields}


REGRESSION = fit(
    features=["a", "b"],
    label="y",
    stages=[{"polynomial_expansion": {"degree": 2}}, {"linear_regression": {"tolerance": 1e-12}}],
)


def least_squares(train: list[Row], rows: list[Row]) -> list[float]:
    """Of a polynomial of degree 2, by numpy."""

    def terms(row: Row) -> list[float]:
        a, b = row["a"], row["b"]
        return [1, a, a * a, b, a * b, b * b]

    matrix, wanted = numpy.array([terms(r) for r in train]), numpy.array([r["y"] for r in train])
    found, *_ = numpy.linalg.lstsq(matrix, wanted, rcond=None)
    return [float(numpy.dot(terms(row), found)) for row in rows]


def test_a_fitted_regression_is_saved_and_scores_a_stream(job: JobUnderTest) -> None:
    model = {**REGRESSION, "save": "models/regression"}
    parts = (numbers("train", TRAIN), numbers("test", TEST), model, files_sink("model"))
    job.define(*parts, mode="batch").run()

    expected = least_squares(TRAIN, TEST)
    batch = {row["id"]: row["prediction"] for row in job.output()}
    assert [batch[row["id"]] for row in TEST] == pytest.approx(expected, abs=1e-6)
    assert list(job.output()[0]) == ["id", "a", "b", "y", "prediction"]

    # a second attempt of the same job takes the model that the first one saved
    [saved] = [one for one in (job.root / "models/regression").iterdir() if one.is_dir()]
    assert (job.root / "models/regression/CURRENT").read_text().strip() == saved.name
    before = saved.stat().st_mtime_ns
    job.run()
    assert saved.stat().st_mtime_ns == before

    stream = job.successor().define(
        numbers("rows", TEST),
        {"id": "model", "op": "ml", "inputs": ["rows"], "model": "models/regression"},
        files_sink("model", path="scored"),
    )
    stream.run()
    assert {row["id"]: row["prediction"] for row in stream.output("scored")} == batch


@pytest.mark.long
def test_another_job_saves_another_version_beside_it(job: JobUnderTest) -> None:
    model = {**REGRESSION, "inputs": ["train"], "save": "models/m"}

    def versions(rows: list[Row]) -> tuple[set[str], str]:
        other = job.successor() if job.attempt else job
        other.define(numbers("train", rows), model, files_sink("model", path="x"), mode="batch")
        other.run()
        place = job.root / "models/m"
        names = {one.name for one in place.iterdir() if one.is_dir()}
        return names, (place / "CURRENT").read_text().strip()

    first, current = versions(TRAIN)
    both, newer = versions(LINEAR)

    assert first == {current}
    assert both == {current, newer}
    assert current != newer


def test_a_path_with_other_things_in_it_is_refused(job: JobUnderTest) -> None:
    precious = job.root / "models" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("years of work")
    model = {**REGRESSION, "inputs": ["train"], "save": "models"}

    with pytest.raises(InvalidVertex, match=r"save: .*models has other things in it"):
        job.define(numbers("train", TRAIN), model, files_sink("model"), mode="batch").run()

    assert [one.name for one in precious.parent.iterdir()] == ["thesis.txt"]


def test_a_missing_model_is_told_before_anything_starts(job: JobUnderTest) -> None:
    score = {"id": "model", "op": "ml", "inputs": ["rows"], "model": "nowhere"}

    with pytest.raises(InvalidVertex, match="vertex model: model: there is no saved model at"):
        job.define(numbers("rows", TEST), score, files_sink("model")).start()


def test_scaled_features_come_out_as_arrays(job: JobUnderTest) -> None:
    stages = [{"standard_scaler": {"as": "scaled"}}, {"min_max_scaler": {"max": 10}}]
    model = fit(features=["a", "b"], stages=stages, inputs=["train"])
    job.define(numbers("train", TRAIN), model, files_sink("model"), mode="batch").run()

    columns = numpy.array([[row["a"], row["b"]] for row in TRAIN])
    scaled = (columns - columns.mean(axis=0)) / columns.std(axis=0, ddof=1)
    spread = 10 * (columns - columns.min(axis=0)) / (columns.max(axis=0) - columns.min(axis=0))
    found = sorted(job.output(), key=lambda row: int(row["id"]))
    assert numpy.array([row["scaled"] for row in found]) == pytest.approx(scaled)
    assert numpy.array([row["features"] for row in found]) == pytest.approx(spread)


def lloyd(points: list[tuple[float, float]], k: int) -> list[tuple[float, float]]:
    """Plain k-means, from k points that are far apart."""
    centres = [points[0]]
    while len(centres) < k:
        centres.append(max(points, key=lambda p: min(_square(p, c) for c in centres)))
    for _ in range(20):
        groups = defaultdict(list)
        for point in points:
            groups[min(range(k), key=lambda n, p=point: _square(p, centres[n]))].append(point)  # type: ignore[misc]
        centres = [
            (sum(p[0] for p in group) / len(group), sum(p[1] for p in group) / len(group))
            for group in groups.values()
        ]
    return centres


def _square(p: tuple[float, float], q: tuple[float, float]) -> float:
    return (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2


@pytest.mark.long
def test_k_means_finds_the_groups_that_lloyd_finds(job: JobUnderTest) -> None:
    dice = random.Random(3)
    rows = [
        {"id": n, "a": dice.gauss(20 * (n % 3), 1), "b": dice.gauss(15 * (n % 2), 1), "y": 0.0}
        for n in range(90)
    ]
    model = fit(features=["a", "b"], stages=[{"k_means": {"k": 6, "seed": 1, "as": "cluster"}}])
    job.define(
        numbers("train", rows), numbers("test", rows), model, files_sink("model"), mode="batch"
    ).run()

    groups = defaultdict(set)
    for row in job.output():
        assert isinstance(row["cluster"], int)
        groups[row["cluster"]].add(row["id"])
    centres = lloyd([(row["a"], row["b"]) for row in rows], 6)
    expected = defaultdict(set)
    for row in rows:
        nearest = min(centres, key=lambda c, r=row: _square((r["a"], r["b"]), c))  # type: ignore[misc]
        expected[nearest].add(row["id"])
    assert sorted(map(sorted, groups.values())) == sorted(map(sorted, expected.values()))


@pytest.mark.long
def test_texts_become_features(job: JobUnderTest) -> None:
    rows = [
        {"id": n, "k": "abc"[n % 3], "y": {"a": 1.0, "b": 5.0, "c": 3.0}["abc"[n % 3]]}
        for n in range(12)
    ]
    stages = [
        {"string_indexer": {"columns": ["k"]}},
        {"one_hot": {"columns": ["k"]}},
        {"linear_regression": {}},
    ]
    model = fit(features=["k"], label="y", stages=stages, inputs=["train"])
    source = table("train", rows, "id INT, k STRING, y DOUBLE")
    job.define(source, model, files_sink("model"), mode="batch").run()

    assert all(row["prediction"] == pytest.approx(row["y"], abs=1e-3) for row in job.output())


def ratings() -> list[Row]:
    """Of rank 2."""
    dice = random.Random(9)
    users = [(dice.uniform(1, 2), dice.uniform(0, 1)) for _ in range(12)]
    items = [(dice.uniform(1, 2), dice.uniform(0, 1)) for _ in range(10)]
    return [
        {"u": u, "i": i, "r": users[u][0] * items[i][0] + users[u][1] * items[i][1]}
        for u in range(12)
        for i in range(10)
    ]


@pytest.mark.long
def test_als_restores_a_matrix_of_low_rank_in_batch_and_for_a_stream(job: JobUnderTest) -> None:
    rows = ratings()
    known = [row for row in rows if (7 * row["u"] + 3 * row["i"]) % 5]
    hidden = [row for row in rows if not (7 * row["u"] + 3 * row["i"]) % 5]
    schema = "u INT, i INT, r DOUBLE"
    stage = {"als": {"user": "u", "item": "i", "rank": 2, "regularization": 0.001}}
    stage["als"] |= {"max_iterations": 20}
    model = fit(label="r", stages=[stage], save="models/als")
    job.define(
        table("train", known, schema),
        table("test", hidden, schema),
        model,
        files_sink("model"),
        mode="batch",
    ).run()

    found = job.output()
    wrong = sum((row["prediction"] - row["r"]) ** 2 for row in found) / len(found)
    assert len(found) == len(hidden)
    assert wrong**0.5 < 0.1, "an average rating is 2.6"

    stranger = {"u": 99, "i": 1, "r": 0.0}
    stream = job.successor().define(
        table("rows", [*hidden, stranger], schema),
        {"id": "model", "op": "ml", "inputs": ["rows"], "model": "models/als"},
        files_sink("model", path="scored"),
    )
    stream.run()
    scored = {(row["u"], row["i"]): row["prediction"] for row in stream.output("scored")}
    assert scored.pop((99, 1)) is None, "nothing is known of that user"
    assert scored == {(row["u"], row["i"]): row["prediction"] for row in found}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"features": ["a", "nosuch"]}, "vertex model: fit: train has no column nosuch, only"),
        (
            {"stages": [{"k_means": {"k": 2, "as": "y"}}], "label": None},
            "a column 'y' comes in already: name the stage's otherwise by 'as'",
        ),
    ],
)
def test_what_does_not_fit_is_told(job: JobUnderTest, fields: Row, told: str) -> None:
    model = {**REGRESSION, **fields}

    with pytest.raises(InvalidVertex, match=told):
        job.define(
            numbers("train", TRAIN), numbers("test", TEST), model, files_sink("model"), mode="batch"
        ).start()


@pytest.mark.long
def test_a_killed_save_leaves_no_half_model(job: JobUnderTest) -> None:
    place = Path(job.root / "models/regression")
    (place / ".draft-of-a-killed-attempt").mkdir(parents=True)
    model = {**REGRESSION, "inputs": ["train"], "save": "models/regression"}
    job.define(numbers("train", TRAIN), model, files_sink("model"), mode="batch").run()

    assert (place / (place / "CURRENT").read_text().strip() / "metadata").is_dir()
