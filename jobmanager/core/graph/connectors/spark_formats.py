"""The connector `spark`: any data source of Spark that a jar brings, such as that of Pulsar."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from jobmanager.core.graph.connectors.connector import file_option_fault
from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Fields

_FORMAT = re.compile(r"[A-Za-z_][\w.$-]*", re.ASCII)
_PACKAGE = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_PLACES = frozenset(["path", "paths", "__paths__"])


class StatedGuarantee(StrEnum):
    """What the user says of a sink that Headgate does not know."""

    NONE = "none"
    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


@dataclass(frozen=True, slots=True)
class SparkFormatSource(SourceConnector):
    name: ClassVar[str] = "spark"
    format: str
    jars: tuple[str, ...] = ()
    """The names of connector packages."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(_read_format(fields), _read_jars(fields))

    def read_schema(self, fields: Fields) -> str | None:
        return fields.text("schema", "") or None

    @property
    def requires(self) -> tuple[str, ...]:
        return self.jars

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return _code(self.format)

    def option_fault(self, option: str, value: str) -> str | None:
        return _option_fault(option, value)


@dataclass(frozen=True, slots=True)
class SparkFormatSink(SinkConnector):
    name: ClassVar[str] = "spark"
    format: str
    jars: tuple[str, ...] = ()
    stated: StatedGuarantee = StatedGuarantee.AT_LEAST_ONCE

    @classmethod
    def read(cls, fields: Fields) -> Self:
        stated = fields.choice("guarantee", StatedGuarantee, StatedGuarantee.AT_LEAST_ONCE)
        return cls(_read_format(fields), _read_jars(fields), stated)

    @property
    def requires(self) -> tuple[str, ...]:
        return self.jars

    @property
    def guarantee(self) -> str:
        return f"{self.stated.replace('_', ' ')}, as the job graph states"

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return _code(self.format)

    def option_fault(self, option: str, value: str) -> str | None:
        return _option_fault(option, value)


def _read_format(fields: Fields) -> str:
    """Read the name of Spark's data source, short or as a class."""
    named = fields.text("format")
    if named and not _FORMAT.fullmatch(named):
        fields.fault("format", f"{named!r} is not the name of a data source, such as pulsar")
    return named


def _read_jars(fields: Fields) -> tuple[str, ...]:
    names = fields.names("jars")
    for name in names:
        if not _PACKAGE.fullmatch(name):
            fields.fault(
                "jars",
                f"{name!r} is not the name of a connector package: install the jars with "
                "`headgate connectors install NAME --coordinates GROUP:ARTIFACT:VERSION`, and "
                "write NAME here",
            )
    return names


def _code(format_name: str) -> str:
    return f"has the connector spark, which runs the code of the data source {format_name}"


def _option_fault(option: str, value: str) -> str | None:
    """Only the data source knows what its options mean; but files are what `files` is for."""
    return file_option_fault(option, value) if option.lower() in _PLACES else None


SOURCES = (SparkFormatSource,)
SINKS = (SparkFormatSink,)
