"""Jars as Flink shows them."""

from typing import Literal

from pydantic import Field

from jobmanager.api.shapes.flink.flink_shape import FlinkShape


class JarUploaded(FlinkShape):
    filename: str
    """A path whose last part is the jar's id."""
    status: Literal["success"]


class JarEntry(FlinkShape):
    name: str
    description: str | None


class JarFile(FlinkShape):
    id: str
    name: str
    uploaded: int
    entry: list[JarEntry]


class JarList(FlinkShape):
    address: str
    files: list[JarFile]


class JarStarted(FlinkShape):
    jobid: str
    application_id: str = Field(alias="applicationId")


class ApplicationStarted(FlinkShape):
    applicationid: str
