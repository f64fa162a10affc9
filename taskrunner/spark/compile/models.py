"""Saved models: directories that are always complete, whatever is killed.

    <path>/CURRENT               the name of the version that `model: <path>` means
    <path>/<job>-<vertex>/       one version: a PipelineModel as Spark writes it
    <path>/.<version>-<uuid>     a version that is not complete yet

A version never changes and is never deleted, so that a stream can continue with it. Saving to an
existing path adds a version and makes it the current one, atomically.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from jobmanager.core.graph.ml import Ml
from jobmanager.core.ids import JobId, VertexId
from taskrunner import logs
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.core.model_metadata import class_fault
from taskrunner.sinks.directory import Guard
from taskrunner.snapshots import durable
from taskrunner.spark.session.hadoop_path import hadoop_path

if TYPE_CHECKING:
    # with Spark ML comes pandas, and a second: only for jobs that have models
    from pyspark.ml import Pipeline, PipelineModel

CURRENT = "CURRENT"
_METADATA = re.compile(r"part-\d+(-[\w-]+)?(\.txt)?")
log = logs.get("models")


class FitFailed(Exception):
    """A pipeline could not be fitted: the cause says why."""

    def __init__(self, vertex: VertexId) -> None:
        super().__init__(f"the pipeline of {vertex} could not be fitted")


class Models(Protocol):
    """Loads, fits and saves models."""

    def load(self, vertex: VertexId, path: str) -> "PipelineModel":
        """Raises `InvalidVertex`."""
        ...

    def fitted(self, vertex: Ml, pipeline: "Pipeline", rows: DataFrame) -> "PipelineModel | None":
        """Fits the pipeline on the rows, and saves it if requested; None: it is only analysed."""
        ...


class NoModels:
    """For the analysis of a graph where paths cannot be read."""

    def load(self, vertex: VertexId, path: str) -> "PipelineModel":
        raise InvalidVertex(vertex, f"{path!r} cannot be read here", "model")

    def fitted(self, vertex: Ml, pipeline: "Pipeline", rows: DataFrame) -> "PipelineModel | None":
        return None


@dataclass(frozen=True, slots=True)
class SeenModels:
    """Loads models and fits none: for the analysis of a graph, and for streams."""

    resolve: Callable[[str], Path]
    loaded: dict[str, "PipelineModel"] = field(default_factory=dict)
    """The models that were current when they were first loaded."""

    def load(self, vertex: VertexId, path: str) -> "PipelineModel":
        if path not in self.loaded:
            self.loaded[path] = self._load(vertex, path)
        return self.loaded[path]

    def _load(self, vertex: VertexId, path: str) -> "PipelineModel":
        place = self.resolve(path)
        pointer = place / CURRENT
        version = place / pointer.read_text().strip() if pointer.exists() else place
        if not (version / "metadata").is_dir():
            raise InvalidVertex(
                vertex, f"there is no saved model at {place}: save one there in batch mode", "model"
            )
        check_classes(vertex, version)
        return _loaded(version)

    def fitted(self, vertex: Ml, pipeline: "Pipeline", rows: DataFrame) -> "PipelineModel | None":
        return None


@dataclass(frozen=True, slots=True)
class JobModels:
    """The models of one attempt of a batch job."""

    resolve: Callable[[str], Path]
    job: JobId
    guard: Guard
    """Held during a publication: keeps other attempts from taking over."""
    scratch: Path
    """A directory that driver and executors can write to during the batch."""

    def load(self, vertex: VertexId, path: str) -> "PipelineModel":
        return SeenModels(self.resolve).load(vertex, path)

    def fitted(self, vertex: Ml, pipeline: "Pipeline", rows: DataFrame) -> "PipelineModel | None":
        version = f"{self.job.hex}-{vertex.id}"
        place = self.resolve(vertex.save) if vertex.save else None
        if place is not None and (place / version).is_dir():
            # an earlier attempt saved the same model, but maybe did not make it current
            self._make_current(place, version)
            return _loaded(place / version)
        if place is not None:
            _check_place(vertex.id, place)
        is_kept = rows.storageLevel.useMemory
        try:
            # ALS writes checkpoints here: otherwise twenty rounds overflow the stack
            durable.make_directory(self.scratch)
            rows.sparkSession.sparkContext.setCheckpointDir(hadoop_path(self.scratch))
            # ALS reads the rows again and again
            model = pipeline.fit(rows if is_kept else rows.persist())
        except PySparkException as error:
            raise FitFailed(vertex.id) from error
        finally:
            if not is_kept:
                rows.unpersist()
        if place is not None:
            self._save(model, place, version)
        return model

    def _save(self, model: "PipelineModel", place: Path, version: str) -> None:
        durable.make_directory(place)
        draft = place / f".{version}-{uuid4().hex}"
        try:
            model.write().save(hadoop_path(draft))
            durable.sync_all((one for one in draft.rglob("*") if one.is_file()), inside=draft)
            with self.guard():
                draft.rename(place / version)
                durable.write(place / CURRENT, f"{version}\n")
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        log.info("model_saved", path=str(place), version=version)

    def _make_current(self, place: Path, version: str) -> None:
        with self.guard():
            durable.write(place / CURRENT, f"{version}\n")


def _loaded(directory: Path) -> "PipelineModel":
    from pyspark.ml import PipelineModel

    return PipelineModel.load(hadoop_path(directory))


def check_classes(vertex: VertexId, version: Path) -> None:
    """Raises `InvalidVertex` where loading a model, or a stage of it, would call other classes
    than Spark ML's own. Spark takes the first line of whatever lies in a `metadata` directory.
    """
    if any(one.is_symlink() for one in version.rglob("*")):
        raise InvalidVertex(vertex, f"{version} has symbolic links in it: copy the model", "model")
    for directory in sorted(version.rglob("metadata")):
        files = [one for one in sorted(directory.iterdir()) if one.name[0] not in "._"]
        if len(files) != 1 or not _METADATA.fullmatch(files[0].name):
            raise InvalidVertex(
                vertex, f"{directory} is not the metadata of a model: it has other files", "model"
            )
        if fault := class_fault(files[0].read_text(encoding="utf-8", errors="replace")):
            raise InvalidVertex(vertex, f"the model at {version} is not loaded: {fault}", "model")


def _check_place(vertex: VertexId, place: Path) -> None:
    """Raises `InvalidVertex` if the directory has other content than models."""
    if not place.exists() or (place / CURRENT).exists():
        return
    if not place.is_dir() or any(not one.name.startswith(".") for one in place.iterdir()):
        raise InvalidVertex(
            vertex, f"{place} has other things in it than models: save somewhere else", "save"
        )
