"""The data sets that a job graph reads and writes, named as OpenLineage names them.

    files, delta   s3://bucket            data/orders          (file, and the whole path, on a disk)
    kafka          kafka://host:9092      topic
    jdbc           postgres://host:5432   database.schema.table
    iceberg        the catalogue's URI    namespace.table
    socket         socket://host:9999     lines

A source or sink without data of its own (`generator`, `table`, `console`, `blackhole`, `python`,
`script`) is no data set. Of a connector that is not in this list the first place counts that it
names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from jobmanager.core.graph.columns import known_columns
from jobmanager.core.graph.connectors.iceberg import IcebergSink, IcebergSource
from jobmanager.core.graph.connectors.jdbc import JdbcSink, JdbcSource
from jobmanager.core.graph.connectors.kafka import KafkaSink, KafkaSource
from jobmanager.core.graph.connectors.sockets import SocketSource
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.paths.location import UnclearLocation, location_of

_NO_DATA = frozenset(["generator", "table", "console", "blackhole", "python", "script"])
_DATABASES = {
    "postgresql": ("postgres", 5432),
    "mysql": ("mysql", 3306),
    "mariadb": ("mysql", 3306),
    "sqlserver": ("mssql", 1433),
    "oracle": ("oracle", 1521),
    "db2": ("db2", 50000),
}
"""By the name in a JDBC URL: the name in OpenLineage, and the usual port."""
_SCHEMAS = {"postgres": "public", "mssql": "dbo"}
"""The schema of a table whose name has none."""
_STORES = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True)
class LineageColumn:
    name: str
    type: str | None = None


@dataclass(frozen=True, slots=True)
class LineageDataset:
    vertex: str
    """The source or sink of the job graph."""
    namespace: str
    name: str
    columns: Sequence[LineageColumn] = field(default=())


def inputs_of(graph: JobGraph, data_root: str) -> list[LineageDataset]:
    """Return what the graph reads. Relative paths are relative to `data_root`."""
    found: list[LineageDataset] = []
    known = known_columns(graph.vertices)
    for vertex in graph.vertices:
        if isinstance(vertex, Source):
            columns = _columns(vertex.schema, known.get(vertex.id))
            named = _named(vertex, data_root)
            found += [LineageDataset(vertex.id, *one, columns) for one in named]
    return found


def outputs_of(graph: JobGraph, data_root: str) -> list[LineageDataset]:
    """Return what the graph writes."""
    found: list[LineageDataset] = []
    known = known_columns(graph.vertices)
    for vertex in graph.vertices:
        if isinstance(vertex, Sink):
            into = known.get(vertex.inputs[0].vertex) if vertex.inputs else None
            columns = _columns(None, None if vertex.inputs[0].side is not None else into)
            named = _named(vertex, data_root)
            found += [LineageDataset(vertex.id, *one, columns) for one in named]
    return found


def _named(vertex: Source | Sink, data_root: str) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of each data set of the vertex."""
    connector = vertex.connector
    match connector:
        case KafkaSource():
            topics = connector.subscription.topics or (connector.subscription.pattern or "",)
            yield from ((_kafka(connector.servers), topic) for topic in topics)
        case KafkaSink():
            yield _kafka(connector.servers), connector.topic
        case JdbcSource():
            yield from names_of_table(connector.database.url.text, connector.table)
        case JdbcSink():
            yield from names_of_table(connector.database.url.text, connector.table)
        case IcebergSource() | IcebergSink():
            yield _catalogue(connector.catalog, data_root), connector.table
        case SocketSource():
            yield f"socket://{connector.host}:{connector.port}", "lines"
        case _ if connector.name not in _NO_DATA:
            place = next((place for _, place in vertex.places()), vertex.options.get("path"))
            if place:
                yield from _of_place(place, data_root)
        case _:
            pass


def _kafka(servers: Sequence[str]) -> str:
    first = servers[0] if servers else ""
    return f"kafka://{first if ':' in first else f'{first}:9092'}"


def _of_place(place: str, data_root: str) -> Iterator[tuple[str, str]]:
    try:
        found = location_of(place, data_root)
    except UnclearLocation:
        return
    if found.is_file:
        yield "file", str(found.path)
        return
    scheme = _STORES.get(found.scheme, found.scheme)
    path = str(found.path)
    # the key of an object has no slash at its beginning, the path of a file has
    yield f"{scheme}://{found.authority}", path if scheme == "hdfs" else path.lstrip("/") or "/"


def names_of_table(url: str, table: str | None) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of a table in the database of a JDBC URL."""
    if table is None:
        return  # of a query Spark alone knows the tables
    found = re.fullmatch(
        r"jdbc:(?P<kind>[\w+.-]+):(?:[a-z]+:)*@?//(?P<host>[^/?;:]+)(?::(?P<port>\d+))?(?P<rest>.*)",
        url,
        re.DOTALL,
    )
    if found is None:
        kind = url.removeprefix("jdbc:").partition(":")[0]
        yield f"jdbc:{kind}", table
        return
    kind = found["kind"].lower()
    scheme, usual = _DATABASES.get(kind, (kind, 0))
    port = found["port"] or str(usual or "")
    namespace = f"{scheme}://{found['host'].rpartition('@')[2]}" + (f":{port}" if port else "")
    yield namespace, _table_name(scheme, _database_in(found["rest"]), table)


def _database_in(rest: str) -> str:
    named = re.search(r"(?i)[;?&]databaseName=([^;&]+)", rest)
    return named[1] if named else re.split(r"[?;]", rest.lstrip("/"), maxsplit=1)[0]


def _table_name(scheme: str, database: str, table: str) -> str:
    parts = [one.strip('"`[]') for one in table.split(".")]
    if len(parts) == 1 and scheme in _SCHEMAS:
        parts = [_SCHEMAS[scheme], *parts]
    most = 2 if scheme == "mysql" else 3
    return ".".join([*([database] if database and len(parts) < most else []), *parts])


def _catalogue(catalog: Mapping[str, str], data_root: str) -> str:
    """Return the address of a catalogue, without user and password."""
    uri = catalog.get("uri", "") or catalog.get("warehouse", "")
    parts = urlsplit(uri)
    if parts.hostname:
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme.partition('+')[0]}://{parts.hostname}{port}{parts.path}"
    return next((f"{kind}:{name}" for kind, name in _of_place(uri, data_root)), "iceberg")


def _columns(schema: str | None, names: Sequence[str] | None) -> tuple[LineageColumn, ...]:
    types = _types(schema) if schema else {}
    return tuple(LineageColumn(name, types.get(name)) for name in names or types)


def _types(schema: str) -> dict[str, str]:
    """Return the types in a Spark DDL text, by column."""
    found: dict[str, str] = {}
    for part in _split(schema):
        named = re.match(r"\s*(?:`((?:[^`]|``)*)`|(\w+))\s*:?\s*(.*)", part, re.DOTALL)
        if named:
            name = named[2] or (named[1] or "").replace("``", "`")
            bare = re.split(r"(?i)\s+(?:not\s+null|comment)\b", named[3], maxsplit=1)[0]
            found[name] = " ".join(bare.split()).lower()
    return found


def _split(schema: str) -> Iterator[str]:
    """Yield the parts between commas that are in no brackets and no quotes."""
    depth, quote, part = 0, "", ""
    for character in schema:
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'":
            quote = character
        elif character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth == 0:
            yield part
            part = ""
            continue
        part += character
    yield part
