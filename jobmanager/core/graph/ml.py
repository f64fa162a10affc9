"""The operator `ml`: fits a pipeline, in batch mode, or applies a saved model, in any mode."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from jobmanager.core.graph import parameters
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Arity, Header, Operator
from jobmanager.core.graph.parameters import (
    Columns,
    Flag,
    Parameter,
    Real,
    Text,
    Whole,
    input_id,
    one_named,
)
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId


class StageKind(StrEnum):
    """The stages of an `ml` pipeline."""

    STRING_INDEXER = "string_indexer"
    ONE_HOT = "one_hot"
    STANDARD_SCALER = "standard_scaler"
    MIN_MAX_SCALER = "min_max_scaler"
    POLYNOMIAL_EXPANSION = "polynomial_expansion"
    LINEAR_REGRESSION = "linear_regression"
    LOGISTIC_REGRESSION = "logistic_regression"
    K_MEANS = "k_means"
    ALS = "als"


@dataclass(frozen=True, slots=True)
class Stage:
    kind: StageKind
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """All parameters that are set, others have Spark's defaults."""
    name: str | None = None
    """The output column of the stage; None: only the next stage uses its result."""


PREDICTORS = (
    StageKind.LINEAR_REGRESSION,
    StageKind.LOGISTIC_REGRESSION,
    StageKind.K_MEANS,
    StageKind.ALS,
)
SUPERVISED = (StageKind.LINEAR_REGRESSION, StageKind.LOGISTIC_REGRESSION, StageKind.ALS)
_COLUMN_STAGES = (StageKind.STRING_INDEXER, StageKind.ONE_HOT)
_REGRESSION: tuple[Parameter, ...] = (
    Whole("max_iterations", 100),
    Real("regularization", 0.0),
    Real("elastic_net", 0.0, 0, 1),
    Real("tolerance", 1e-6),
    Flag("fit_intercept", True),
)
STAGES: Mapping[StageKind, Sequence[Parameter]] = {
    StageKind.STRING_INDEXER: [Columns("columns")],
    StageKind.ONE_HOT: [Columns("columns"), Flag("drop_last", True)],
    StageKind.STANDARD_SCALER: [Flag("with_mean", True), Flag("with_std", True)],
    StageKind.MIN_MAX_SCALER: [
        Real("min", 0.0, float("-inf")),
        Real("max", 1.0, float("-inf")),
    ],
    StageKind.POLYNOMIAL_EXPANSION: [Whole("degree", 2, 2)],
    StageKind.LINEAR_REGRESSION: _REGRESSION,
    StageKind.LOGISTIC_REGRESSION: _REGRESSION,
    StageKind.K_MEANS: [
        Whole("k", None, 2),
        Whole("max_iterations", 20),
        Real("tolerance", 1e-4),
        Whole("seed", 0, 0),
    ],
    StageKind.ALS: [
        Text("user"),
        Text("item"),
        Whole("rank", 10),
        Whole("max_iterations", 10),
        Real("regularization", 0.1),
        Flag("implicit", False),
        Flag("nonnegative", False),
        Whole("seed", 0, 0),
    ],
}
PREDICTION, FEATURES = "prediction", "features"


@dataclass(frozen=True, slots=True)
class Ml(Vertex):
    op: ClassVar[str] = "ml"
    rows: VertexId
    """The input that is transformed."""
    fit: VertexId | None = None
    """The input that the pipeline is fitted on; None: `model` is used."""
    stages: tuple[Stage, ...] = ()
    features: tuple[str, ...] = ()
    label: str | None = None
    save: str | None = None
    model: str | None = None
    """Path of a saved model."""

    def places(self) -> Iterator[tuple[str, str]]:
        if self.save is not None:
            yield "save", self.save
        if self.model is not None:
            yield "model", self.model

    @property
    def fault_in_a_loop(self) -> tuple[str, str] | None:
        if self.save:
            return "save", "every round would save another model: leave it out"
        return None


def _read(fields: Fields, header: Header) -> Ml:
    if fields.has("model"):
        return _scoring(fields, header)
    if not fields.has("fit"):
        fields.fault("fit", "missing: the input to fit on, or model: the path of a saved model")
    if header.mode is Mode.STREAMING and fields.has("fit"):
        fields.fault(
            "fit",
            "a pipeline is fitted in batch mode: save it there, and let a stream take it as model",
        )
    fit = input_id(fields, "fit", header.inputs)
    rows = [one.vertex for one in header.inputs if one.vertex != fit]
    if len(rows) > 1:
        fields.fault("inputs", f"one input is fitted on and one transformed, not {', '.join(rows)}")
    stages = _stages(fields)
    features = fields.names("features")
    label = fields.text("label") if fields.has("label") else None
    _check_columns(fields, stages, features, label)
    save = fields.text("save") if fields.has("save") else None
    chosen = (rows or [fit or VertexId("")])[0]
    return Ml(header.id, header.inputs, chosen, fit, stages, features, label, save)


def _scoring(fields: Fields, header: Header) -> Ml:
    for other in ("fit", "stages", "features", "label", "save"):
        if fields.has(other):
            fields.fault(
                other, f"a saved model already determines this: drop {other!r}, or drop 'model'"
            )
    if len(header.inputs) > 1:
        fields.fault("inputs", f"a saved model has one input, not {len(header.inputs)}")
    rows = header.inputs[0].vertex if header.inputs else VertexId("")
    return Ml(header.id, header.inputs, rows, model=fields.text("model"))


def _stages(fields: Fields) -> tuple[Stage, ...]:
    documents = fields.raw("stages")
    if not isinstance(documents, list) or not documents:
        fields.fault("stages", f"missing: a list of one or more of {', '.join(STAGES)}")
        return ()
    stages: list[Stage] = []
    for position, document in enumerate(documents):
        field = f"stages[{position}]"
        name = one_named(fields, field, document, STAGES)
        if name is not None:
            inner = fields.nested(field, document).section(name)
            stages.append(_stage(inner, StageKind(name), position == len(documents) - 1))
            inner.done()
    _check_order(fields, stages)
    return tuple(stages)


def _stage(fields: Fields, kind: StageKind, is_last: bool) -> Stage:
    values = parameters.read(fields, STAGES[kind])
    name = fields.text("as") if fields.has("as") else None
    if name is None and is_last:
        name = PREDICTION if kind in PREDICTORS else FEATURES
    if kind in _COLUMN_STAGES and fields.has("as"):
        fields.fault("as", f"a {kind} changes several features: give a later stage a name")
    if kind is StageKind.MIN_MAX_SCALER and values["min"] >= values["max"]:
        fields.fault("max", f"{values['max']:g} is not above min, {values['min']:g}")
    return Stage(kind, values, name)


def _check_order(fields: Fields, stages: Sequence[Stage]) -> None:
    kinds = [stage.kind for stage in stages]
    for position, kind in enumerate(kinds):
        field = f"stages[{position}]"
        if kind in PREDICTORS and position < len(kinds) - 1:
            fields.fault(field, f"{kind} predicts, and nothing can come after it: make it the last")
        if kind is StageKind.ALS and position > 0:
            fields.fault(field, "als takes users and items, not features: make it the only stage")
        before = kinds[:position]
        if kind in _COLUMN_STAGES and any(one not in _COLUMN_STAGES for one in before):
            fields.fault(field, f"{kind} changes single columns: put it before the other stages")
    names = [stage.name for stage in stages if stage.name is not None]
    for twice in sorted({name for name in names if names.count(name) > 1}):
        fields.fault(
            "stages", f"two stages come out as {twice!r}: give one of them another name with 'as'"
        )


def _check_columns(
    fields: Fields, stages: Sequence[Stage], features: tuple[str, ...], label: str | None
) -> None:
    kinds = [stage.kind for stage in stages]
    if not stages:
        return
    if StageKind.ALS in kinds and features:
        fields.fault("features", "als takes users and items: leave this out")
    if StageKind.ALS not in kinds and not features:
        fields.fault("features", "missing: the columns that the stages work on")
    if label is None:
        for kind in (kind for kind in kinds if kind in SUPERVISED):
            fields.fault("label", f"missing: the column that {kind} is to predict")
    elif not any(kind in SUPERVISED for kind in kinds):
        fields.fault("label", f"none of {', '.join(kinds)} has a label: leave this out")
    for position, stage in enumerate(stages):
        for column in stage.parameters.get("columns", ()):
            if column not in features:
                where = f"stages[{position}].{stage.kind}.columns"
                fields.fault(where, f"{column!r} is not one of the features")


OPERATORS = (Operator("ml", _read, Arity.SOME),)
