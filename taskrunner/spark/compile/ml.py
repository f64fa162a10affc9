"""The operator `ml`: Spark ML pipelines.

The stages work on vectors in internal columns (`__headgate_…`), which are dropped at the end.
The output is plain: a vector as ARRAY<DOUBLE>, a prediction as DOUBLE or INT.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.ml import Pipeline, PipelineModel, Transformer
from pyspark.ml.base import Estimator
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.clustering import KMeans
from pyspark.ml.feature import (
    MinMaxScaler,
    OneHotEncoder,
    PolynomialExpansion,
    StandardScaler,
    StringIndexer,
    VectorAssembler,
)
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.ml.recommendation import ALS
from pyspark.ml.regression import LinearRegression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import FloatType, StructField

from jobmanager.core.graph.ml import Ml, Stage, StageKind
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.session.column_names import column

_OURS = "__headgate_"
_CUT_EVERY = 5
"""After this many rounds ALS writes a checkpoint, which cuts the lineage of its RDDs."""
_RAW, _PROBABILITY = f"{_OURS}raw", f"{_OURS}probability"


def _compile(vertex: Ml, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    vertex, models = context.under_whole_name(vertex), context.models
    frames = dict(zip((one.vertex for one in vertex.inputs), inputs, strict=True))
    rows = frames[vertex.rows]
    if vertex.model is not None:
        return _transformed(vertex, models.load(vertex.id, vertex.model), rows)
    assert vertex.fit is not None
    learned = frames[vertex.fit]
    _check_columns(vertex, "fit", learned, [*_columns_used(vertex), *_labels(vertex)])
    _check_columns(vertex, "inputs", rows, _columns_used(vertex))
    for stage in vertex.stages:
        if stage.name in rows.columns:
            raise InvalidVertex(
                vertex.id,
                f"a column {stage.name!r} comes in already: name the stage's otherwise by 'as'",
            )
    model = models.fitted(vertex, pipeline_of(vertex), learned)
    return _transformed(vertex, model, rows) if model else _as_if_transformed(vertex, rows)


def pipeline_of(vertex: Ml) -> Pipeline:
    """The stages as Spark stages, each of which reads the output of the one before."""
    stages: list[Any] = []
    columns = list(vertex.features)
    vector: str | None = None
    for number, stage in enumerate(vertex.stages):
        output = stage.name or f"{_OURS}{number}"
        if stage.kind in (StageKind.STRING_INDEXER, StageKind.ONE_HOT):
            stages.append(_column_stage(stage, number, columns))
            if number == len(vertex.stages) - 1:
                stages.append(_assembler(columns, output))
            continue
        if stage.kind is not StageKind.ALS and vector is None:
            vector = f"{_OURS}features"
            stages.append(_assembler(columns, vector))
        stages.append(_stage(stage, vector, vertex.label, output))
        vector = output
    return Pipeline(stages=stages)


def _assembler(columns: Sequence[str], output: str) -> Transformer:
    return VectorAssembler(inputCols=list(columns), outputCol=output)


def _column_stage(stage: Stage, number: int, columns: list[str]) -> Estimator[Any]:
    """A stage that changes some of the features; `columns` is updated to the new columns."""
    taken = list(stage.parameters["columns"])
    read = [next(c for c in columns if _origin(c) == name) for name in taken]
    written = [f"{_OURS}{number}_{name}" for name in taken]
    for before, after in zip(read, written, strict=True):
        columns[columns.index(before)] = after
    if stage.kind is StageKind.STRING_INDEXER:
        # a value that was not in the training rows gets a number of its own
        return StringIndexer(inputCols=read, outputCols=written, handleInvalid="keep")
    drop_last = stage.parameters["drop_last"]
    return OneHotEncoder(inputCols=read, outputCols=written, dropLast=drop_last)


def _origin(name: str) -> str:
    """The feature from which a column was made."""
    return name.removeprefix(_OURS).partition("_")[2] if name.startswith(_OURS) else name


def _stage(stage: Stage, vector: str | None, label: str | None, output: str) -> Any:
    given = stage.parameters
    match stage.kind:
        case StageKind.STANDARD_SCALER:
            with_mean, with_std = given["with_mean"], given["with_std"]
            return StandardScaler(
                inputCol=vector, outputCol=output, withMean=with_mean, withStd=with_std
            )
        case StageKind.MIN_MAX_SCALER:
            return MinMaxScaler(
                inputCol=vector, outputCol=output, min=given["min"], max=given["max"]
            )
        case StageKind.POLYNOMIAL_EXPANSION:
            return PolynomialExpansion(inputCol=vector, outputCol=output, degree=given["degree"])
        case StageKind.K_MEANS:
            return KMeans(
                featuresCol=vector or "",
                predictionCol=output,
                k=given["k"],
                maxIter=given["max_iterations"],
                tol=given["tolerance"],
                seed=given["seed"],
            )
        case StageKind.ALS:
            return _als(stage, label, output)
        case StageKind.LINEAR_REGRESSION:
            return LinearRegression(**_regression(stage, vector, label, output))
        case _:
            return LogisticRegression(
                **_regression(stage, vector, label, output),
                rawPredictionCol=_RAW,
                probabilityCol=_PROBABILITY,
            )


def _regression(stage: Stage, vector: str | None, label: str | None, output: str) -> dict[str, Any]:
    given = stage.parameters
    return {
        "featuresCol": vector,
        "labelCol": label,
        "predictionCol": output,
        "maxIter": given["max_iterations"],
        "regParam": given["regularization"],
        "elasticNetParam": given["elastic_net"],
        "tol": given["tolerance"],
        "fitIntercept": given["fit_intercept"],
    }


def _als(stage: Stage, label: str | None, output: str) -> ALS:
    given = stage.parameters
    als = ALS(
        userCol=given["user"],
        itemCol=given["item"],
        ratingCol=label or "",
        rank=given["rank"],
        maxIter=given["max_iterations"],
        regParam=given["regularization"],
        implicitPrefs=given["implicit"],
        nonnegative=given["nonnegative"],
        seed=given["seed"],
        coldStartStrategy="nan",
        checkpointInterval=_CUT_EVERY,
    )
    als.setPredictionCol(output)
    return als


def _transformed(vertex: Ml, model: PipelineModel, rows: DataFrame) -> DataFrame:
    try:
        found = model.transform(rows)
    except Exception as error:
        raise InvalidVertex(vertex.id, f"the rows do not fit the model: {error}") from error
    return found.select(
        *(column(name) for name in rows.columns),
        *(_plain(field) for field in found.schema if _is_result(field, rows)),
    )


def _is_result(field: StructField, rows: DataFrame) -> bool:
    return field.name not in rows.columns and not field.name.startswith(_OURS)


def _plain(field: StructField) -> Any:
    if isinstance(field.dataType, VectorUDT):
        return vector_to_array(column(field.name)).alias(field.name)
    if isinstance(field.dataType, FloatType):  # ALS predicts NaN for unknown users and items
        value = sql.nanvl(column(field.name).cast("double"), sql.lit(None).cast("double"))
        return value.alias(field.name)
    return column(field.name)


def _as_if_transformed(vertex: Ml, rows: DataFrame) -> DataFrame:
    """Rows with the columns that the pipeline will add, all NULL."""
    kinds = {stage.name: _type_of(stage.kind) for stage in vertex.stages if stage.name}
    added = [sql.lit(None).cast(kind).alias(name) for name, kind in kinds.items()]
    return rows.select("*", *added)


def _type_of(kind: StageKind) -> str:
    match kind:
        case StageKind.K_MEANS:
            return "int"
        case StageKind.LINEAR_REGRESSION | StageKind.LOGISTIC_REGRESSION | StageKind.ALS:
            return "double"
        case _:
            return "array<double>"


def _columns_used(vertex: Ml) -> list[str]:
    als = [stage.parameters for stage in vertex.stages if stage.kind is StageKind.ALS]
    return [*vertex.features, *(one[end] for one in als for end in ("user", "item"))]


def _labels(vertex: Ml) -> list[str]:
    return [vertex.label] if vertex.label else []


def _check_columns(vertex: Ml, field: str, rows: DataFrame, wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in rows.columns]
    if missing:
        which = vertex.fit if field == "fit" else vertex.rows
        raise InvalidVertex(
            vertex.id, f"{which} has no column {', '.join(missing)}, only {rows.columns}", field
        )


COMPILERS = (OperatorCompiler(Ml, _compile),)
