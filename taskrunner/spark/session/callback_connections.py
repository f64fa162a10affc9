"""The connections over which Spark's threads call this process, such as for each batch of a query.

Py4J keeps a thread and a socket here for each thread of the JVM that has ever called, until the JVM
happens to collect its end of the connection. In a process with one job that does not matter. In a
shared process each query of each job that has come and gone would leave one behind, so the session
of a job closes them when its queries have ended.
"""

import socket
from contextlib import suppress
from threading import Lock
from typing import Any

from pyspark.sql import SparkSession

_known: dict[int, list[Any]] = {}
"""Identity of a session to the connections of its queries' threads."""
_changing = Lock()


def begin(spark: SparkSession) -> None:
    """Note the connections of this session from now on."""
    with _changing:
        _known[id(spark)] = []


def note(spark: SparkSession) -> None:
    """Called in a thread that serves a call of the JVM, for a query of this session. It is private
    to Py4J, so it may be missing.
    """
    if id(spark) not in _known:
        return
    with suppress(Exception):
        gateway: Any = spark.sparkContext._gateway
        connection = gateway._gateway_client.get_thread_connection()
        with _changing:
            known = _known.get(id(spark), [])
            if connection is not None and all(one is not connection for one in known):
                known.append(connection)


def close_all(spark: SparkSession) -> None:
    """Close them, after the queries of the session have ended. Their threads here end, too."""
    with _changing:
        found = _known.pop(id(spark), [])
    for connection in found:
        with suppress(Exception):
            # not `close`, which would wait for the thread that reads; at the end of its input that
            # thread closes the connection and ends
            connection.socket.shutdown(socket.SHUT_RDWR)
