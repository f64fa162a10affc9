"""`redis`: each row under its key, written by the tasks and fenced inside of the server."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from jobmanager.core.graph.connectors.redis import RedisServer, RedisSink, ValueFormat
from jobmanager.core.graph.sinks import Sink
from taskrunner.core import store_failures
from taskrunner.core.store_failures import WriteOvertaken
from taskrunner.sinks.redis_output import KeyedValue, RedisAccess, RedisBatch, RedisOutput
from taskrunner.spark.connectors.keyed_rows import (
    IS_DELETED,
    KEY,
    PartitionWriter,
    json_of,
    one_for_each_key,
    text_of,
    write_in_tasks,
)
from taskrunner.spark.connectors.keyed_stores import (
    KeyedStoreSink,
    certificates_in,
    check_rows,
    need_package,
    some_at_once,
)
from taskrunner.spark.connectors.row_counts import discard
from taskrunner.spark.connectors.writing import SinkWriter, WriteContext

_FIELD = "f_"
_VALUE = "__headgate_value"


class RedisKeys(KeyedStoreSink):
    """Keys of a server in which the newest row of each key stays; see `RedisOutput`."""

    def __init__(self, sink: Sink, redis: RedisSink, context: WriteContext) -> None:
        self._redis = redis
        self._output = RedisOutput(
            _access(redis.server, context),
            redis.prefix,
            context.job,
            sink.id,
            context.attempt,
            context.guard,
            int(redis.expire.total_seconds() * 1000) if redis.expire else 0,
        )
        super().__init__(sink, context, self._output)

    def write(self, rows: DataFrame, batch: int) -> int:
        opened = self._output.begin(batch)
        if opened is None:
            return discard(rows)
        key = self._redis.row_key
        columns = self._redis.value_columns(tuple(rows.columns))
        last = one_for_each_key(rows, key, _written(rows, columns, self._redis.format))
        write = _writer(opened, columns, self._redis)
        try:
            count = write_in_tasks(last, key, write, f"sink {self._sink.id}, batch {batch}")
        except WriteOvertaken:
            self._output.check()  # says who has taken over, if somebody has
            raise
        self._output.end(batch)
        return count


def _written(rows: DataFrame, columns: Sequence[str], format: ValueFormat) -> list[Column]:
    match format:
        case ValueFormat.HASH:
            kinds = {one: rows.schema[one].dataType for one in columns}
            # numbered: the names of columns may be anything
            return [
                text_of(one, kinds[one]).alias(f"{_FIELD}{number}")
                for number, one in enumerate(columns)
            ]
        case ValueFormat.JSON:
            return [json_of(columns).alias(_VALUE)]
        case ValueFormat.RAW:
            return [text_of(one, rows.schema[one].dataType).alias(_VALUE) for one in columns[:1]]


def _writer(opened: RedisBatch, columns: Sequence[str], redis: RedisSink) -> PartitionWriter:
    is_hash, at_once = redis.format is ValueFormat.HASH, redis.rows_at_once

    def value(row: dict[str, Any]) -> KeyedValue:
        if row[IS_DELETED]:
            return row[KEY], None
        if not is_hash:
            return row[KEY], row[_VALUE]
        fields = ((one, row[f"{_FIELD}{number}"]) for number, one in enumerate(columns))
        flat = [part for one in fields if one[1] is not None for part in one]
        return row[KEY], flat or None

    def write(pieces: Iterator[Sequence[dict[str, Any]]]) -> None:
        with opened.access.client() as client:
            for rows in some_at_once(pieces, at_once):
                opened.write(client, [value(row) for row in rows])

    return write


def _access(server: RedisServer, context: WriteContext) -> RedisAccess:
    need_package("redis", "redis")
    return RedisAccess(
        server.host,
        server.port,
        server.database,
        server.is_encrypted,
        server.user,
        server.password,
        certificates_in(server.ca, context),
    )


READERS = ()
WRITERS = (SinkWriter(RedisSink, RedisKeys, check_rows, store_failures.explain),)
