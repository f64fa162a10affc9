"""Saved models name classes: only Spark ML's own are loaded."""

import json
from pathlib import Path

import pytest

from jobmanager.core.ids import VertexId
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.core.model_metadata import class_fault
from taskrunner.spark.compile.models import check_classes

PIPELINE = "org.apache.spark.ml.PipelineModel"


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.spark.ml.regression.LinearRegressionModel",
        "org.apache.spark.ml.PipelineModel",
        "pyspark.ml.pipeline.PipelineModel",
    ],
)
def test_classes_of_spark_ml_are_loaded(name: str) -> None:
    assert class_fault(json.dumps({"class": name, "uid": "x"})) is None


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"class": "joblib.numpy_pickle.joblib"}),
        json.dumps({"class": "evil.Model"}),
        json.dumps({"class": "pyspark.ml.util.os"}),
        json.dumps({"class": "pyspark.mlevil.Model"}),
        json.dumps({"class": "org.apache.spark.ml.feature.SQLTransformer"}),
        json.dumps({"class": 5}),
        json.dumps({"uid": "x"}),
        "[]",
        "no json",
    ],
)
def test_whatever_else_a_model_names_is_not(text: str) -> None:
    assert class_fault(text) is not None


def a_model(root: Path, *stages: str) -> Path:
    for number, name in enumerate((PIPELINE, *stages)):
        home = root if number == 0 else root / "stages" / f"{number - 1}_stage"
        (home / "metadata").mkdir(parents=True)
        (home / "metadata" / "part-00000").write_text(json.dumps({"class": name}))
        (home / "metadata" / "_SUCCESS").write_text("")
        (home / "metadata" / ".part-00000.crc").write_text("crc")
    return root


def test_every_stage_of_a_model_is_looked_at(tmp_path: Path) -> None:
    check_classes(
        VertexId("ml"), a_model(tmp_path / "fine", "org.apache.spark.ml.clustering.KMeansModel")
    )

    with pytest.raises(InvalidVertex, match=r"evil\.Stage"):
        check_classes(VertexId("ml"), a_model(tmp_path / "bad", "evil.Stage"))


def test_a_file_that_spark_would_read_instead_is_refused(tmp_path: Path) -> None:
    model = a_model(tmp_path / "model")
    (model / "metadata" / "aaa").write_text(json.dumps({"class": "evil.Model"}))

    with pytest.raises(InvalidVertex, match="other files"):
        check_classes(VertexId("ml"), model)


def test_a_stage_that_is_a_link_is_refused(tmp_path: Path) -> None:
    model, other = a_model(tmp_path / "model"), a_model(tmp_path / "other", "evil.Stage")
    (model / "stages").symlink_to(other / "stages")

    with pytest.raises(InvalidVertex, match="symbolic links"):
        check_classes(VertexId("ml"), model)
