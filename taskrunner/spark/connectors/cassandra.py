"""`cassandra`: each row is a row of a table, written by the tasks with a version."""

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from jobmanager.core.graph.connectors.cassandra import CassandraServers, CassandraSink
from jobmanager.core.graph.connectors.table_mode import TableMode
from jobmanager.core.graph.sinks import Sink
from taskrunner.core import store_failures
from taskrunner.core.cql_types import table_faults
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.sinks.cassandra_output import CassandraAccess, CassandraRow, CassandraStore
from taskrunner.spark.connectors.keyed_rows import IS_DELETED
from taskrunner.spark.connectors.keyed_stores import certificates_in, check_rows, need_package
from taskrunner.spark.connectors.versioned_keys import RowForm, VersionedKeys
from taskrunner.spark.connectors.writing import SinkWriter, WriteContext
from taskrunner.spark.session.column_names import column

_FIELD = "f_"


class CassandraRows(VersionedKeys):
    """Rows of a table, in which the newest row of each key stays."""

    def __init__(self, sink: Sink, cassandra: CassandraSink, context: WriteContext) -> None:
        self._cassandra = cassandra
        self._store = CassandraStore(
            _access(cassandra.servers, context),
            cassandra.keyspace,
            cassandra.table,
            cassandra.row_key.columns,
            int(cassandra.expire.total_seconds()) if cassandra.expire else 0,
            cassandra.consistency.name,
        )
        super().__init__(sink, cassandra.row_key, self._store, cassandra.rows_at_once, context)

    def begin(self, schema: StructType) -> None:
        key = self._cassandra.row_key
        rows = {
            one: schema[one].dataType.simpleString()
            for one in self._cassandra.stored_columns(tuple(schema.names))
        }
        with self._store.connected() as connection:
            table = connection.columns()
            if not table:
                raise VertexRefused(
                    f"there is no {self._store.name}: create the table with the primary key "
                    f"({', '.join(key.columns)}), and start the job again",
                    "table",
                )
            is_delete = key.mode is TableMode.DELETE
            faults = list(table_faults(table, rows, key.columns, is_delete))
            if faults:
                raise VertexRefused("; ".join(one for _, one in faults), faults[0][0])
            connection.make_records()

    def written(self, rows: DataFrame) -> tuple[list[Column], RowForm]:
        columns = self._cassandra.stored_columns(tuple(rows.columns))
        if self._cassandra.row_key.mode is TableMode.DELETE:
            columns = self._cassandra.row_key.columns
        # numbered: the names of columns may be anything
        chosen = [column(one).alias(f"{_FIELD}{number}") for number, one in enumerate(columns)]

        def form(row: dict[str, Any]) -> CassandraRow:
            values = {one: row[f"{_FIELD}{number}"] for number, one in enumerate(columns)}
            return CassandraRow(values, row[IS_DELETED])

        return chosen, form


def _access(servers: CassandraServers, context: WriteContext) -> CassandraAccess:
    need_package("cassandra.cluster", "cassandra")
    return CassandraAccess(
        servers.hosts,
        servers.port,
        servers.is_encrypted,
        servers.user,
        servers.password,
        certificates_in(servers.ca, context),
    )


READERS = ()
WRITERS = (SinkWriter(CassandraSink, CassandraRows, check_rows, store_failures.explain),)
