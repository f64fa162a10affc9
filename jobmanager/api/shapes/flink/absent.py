"""Answers about things of Flink that Headgate has none of."""

from pydantic import Field

from jobmanager.api.shapes.flink.flink_shape import FlinkShape


class DataSets(FlinkShape):
    data_sets: list[str] = Field(alias="dataSets")
    """Always empty."""


class Profilings(FlinkShape):
    profiling_list: list[str] = Field(alias="profilingList")
    """Always empty."""
