"""Metrics as Flink shows them: names, values, aggregates."""

from typing import Literal

from pydantic import RootModel

from jobmanager.api.shapes.flink.flink_shape import FlinkShape


class MetricValue(FlinkShape):
    id: str
    value: str = ""
    """Absent: only the names were asked for."""


class MetricList(RootModel[list[MetricValue]]):
    """Metrics of one component."""


class AggregatedMetric(FlinkShape):
    """Over several components. Absent: not asked for."""

    id: str
    min: float | Literal["NaN"] = 0.0
    max: float | Literal["NaN"] = 0.0
    avg: float | Literal["NaN"] = 0.0
    sum: float | Literal["NaN"] = 0.0
    skew: float | Literal["NaN"] = 0.0


class AggregatedMetricList(RootModel[list[AggregatedMetric]]):
    """Metrics of several components together."""
