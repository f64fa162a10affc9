"""Keeps the schemas of a source's records in the job's directory, and asks the registry for new
ones (`taskrunner.core.writer_schemas`).
"""

from collections.abc import Sequence
from pathlib import Path

from jobmanager.core.graph.connectors.schema_registry import RegistryReference, SchemaType
from jobmanager.files import durable
from jobmanager.files.schema_registry import (
    RegistryRefused,
    SchemaMissing,
    SchemaRegistry,
    SchemaUnusable,
)
from taskrunner import logs
from taskrunner.core import kafka_failures, writer_schemas
from taskrunner.core.failures import Cause, Explanation
from taskrunner.core.writer_schemas import WriterSchemas

log = logs.get("kafka")
_files: dict[str, Path] = {}
"""Source to its file. A runner has one job at a time."""


def schemas_of(vertex: str, registry: RegistryReference, file: Path) -> WriterSchemas:
    """The schemas of a source when an attempt begins. Raises `RegistryRefused` if a schema that
    records have cannot be asked for.
    """
    assert registry.resolved is not None
    _files[vertex] = file
    before = _read(file)
    schemas = before.with_submitted(registry.resolved)
    if schemas.noted or schemas.absent:
        schemas = _asked(schemas, registry)
        _write(file, schemas)
        log.info(
            "schemas_asked", vertex=vertex, known=sorted(set(schemas.known) - set(before.known))
        )
    return schemas


def explain(causes: Sequence[Cause]) -> Explanation | None:
    """What a failure of a source or sink of Kafka means. Of a record with an unknown schema the id
    is noted, for the next attempt.
    """
    met = kafka_failures.unknown_schema(causes)
    if met is not None and met.vertex in _files:
        file = _files[met.vertex]
        _write(file, _read(file).met(met.schema))
    return kafka_failures.explain(causes)


def _asked(schemas: WriterSchemas, registry: RegistryReference) -> WriterSchemas:
    client = SchemaRegistry(registry.url, registry.user, registry.password)

    def ask(number: int) -> str | None:
        try:
            found = client.schema(number)
        except (SchemaMissing, SchemaUnusable):
            return None
        except RegistryRefused:
            if number in schemas.absent:
                return None  # nothing new: no reason not to start
            raise
        return found.schema if found.type is SchemaType.AVRO else None

    return schemas.asked(ask)


def _read(file: Path) -> WriterSchemas:
    try:
        return writer_schemas.from_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return WriterSchemas()


def _write(file: Path, schemas: WriterSchemas) -> None:
    durable.write(file, schemas.to_json())
