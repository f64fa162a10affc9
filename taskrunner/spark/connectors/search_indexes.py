"""`elasticsearch` and `opensearch`: each row is a document, written by the tasks with a version."""

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from jobmanager.core.graph.connectors.search_indexes import (
    ElasticsearchSink,
    OpenSearchSink,
    SearchSink,
)
from jobmanager.core.graph.sinks import Sink
from taskrunner.core import store_failures
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.sinks.optional_packages import PackageMissing, imported
from taskrunner.sinks.search_clients import SearchAccess
from taskrunner.sinks.search_output import Document, SearchStore
from taskrunner.spark.connectors.keyed_rows import IS_DELETED, KEY, check_key, json_of
from taskrunner.spark.connectors.versioned_keys import RowForm, VersionedKeys
from taskrunner.spark.connectors.writing import SinkWriter, WriteContext

_DOCUMENT = "__headgate_document"
_PACKAGES = {"elasticsearch": "elasticsearch", "opensearch": "opensearchpy"}


class SearchDocuments(VersionedKeys):
    """Documents of an index, in which the newest row of each key stays."""

    def __init__(self, sink: Sink, search: SearchSink, context: WriteContext) -> None:
        self._search = search
        self._store = SearchStore(_access(search, context), search.index)
        super().__init__(sink, search.row_key, self._store, search.rows_at_once, context)

    def begin(self, schema: StructType) -> None:
        columns = self._search.stored_columns(tuple(schema.names))
        with self._store.connected() as connection:
            faults = connection.faults(columns)
            if faults:
                raise VertexRefused("; ".join(faults), "index")
            connection.make_records()

    def written(self, rows: DataFrame) -> tuple[list[Column], RowForm]:
        columns = self._search.stored_columns(tuple(rows.columns))
        return [json_of(columns).alias(_DOCUMENT)], _document


def _document(row: dict[str, Any]) -> Document:
    return row[KEY], None if row[IS_DELETED] else row[_DOCUMENT]


def _access(search: SearchSink, context: WriteContext) -> SearchAccess:
    try:
        imported(_PACKAGES[search.name], search.name)
    except PackageMissing as error:
        raise VertexRefused(str(error)) from error
    server, certificates = search.server, None
    if server.ca is not None:
        try:
            certificates = context.resolve(server.ca).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise VertexRefused(f"the certificates cannot be read: {error}", "ca") from error
    return SearchAccess(search.name, server.url, server.user, server.password, certificates)


def _check_rows(sink: Sink, search: SearchSink, rows: DataFrame) -> None:
    check_key(rows, search.row_key)


READERS = ()
WRITERS = tuple(
    SinkWriter(connector, SearchDocuments, _check_rows, store_failures.explain)
    for connector in (ElasticsearchSink, OpenSearchSink)
)
