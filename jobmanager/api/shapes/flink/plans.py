"""A plan as Flink shows it: one node a task."""

from typing import Any

from pydantic import Field

from jobmanager.api.shapes.flink.flink_shape import FlinkShape, HyphenatedShape


class PlanInput(FlinkShape):
    id: str
    """The task that the rows come from."""
    num: int
    exchange: str
    ship_strategy: str


class PlanNode(FlinkShape):
    id: str
    operator: str
    parallelism: int
    operator_strategy: str
    description: str
    optimizer_properties: dict[str, Any]
    headgate_vertices: list[str] = Field(alias="headgate-vertices")
    """The vertices that are chained in the task."""
    inputs: list[PlanInput] = Field(default_factory=list)
    """Absent: the task reads a source."""


class PlanRegion(HyphenatedShape):
    id: str
    vertices: list[str]
    root: str
    sinks: list[str]
    output_mode: str
    spark_plan: str = ""
    """Spark's own plan; absent: it was not asked for."""


class JobPlan(FlinkShape):
    jid: str
    name: str
    type: str
    nodes: list[PlanNode]
    headgate_regions: list[PlanRegion] = Field(alias="headgate-regions")


class JobPlanResponse(FlinkShape):
    plan: JobPlan
