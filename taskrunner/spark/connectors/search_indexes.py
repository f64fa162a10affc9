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
from taskrunner.sinks.search_clients import SearchAccess
from taskrunner.sinks.search_output import Document, SearchStore
from taskrunner.spark.connectors.keyed_rows import IS_DELETED, KEY, json_of
from taskrunner.spark.connectors.keyed_stores import certificates_in, check_rows, need_package
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
    need_package(_PACKAGES[search.name], search.name)
    server, certificates = search.server, certificates_in(search.server.ca, context)
    return SearchAccess(search.name, server.url, server.user, server.password, certificates)


READERS = ()
WRITERS = tuple(
    SinkWriter(connector, SearchDocuments, check_rows, store_failures.explain)
    for connector in (ElasticsearchSink, OpenSearchSink)
)
