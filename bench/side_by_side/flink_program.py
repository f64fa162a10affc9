"""The same in Flink: one JVM with a local cluster that runs the queries it is told to.

It is run by the Python of a virtual environment of its own, which has `apache-flink` and nothing of
Headgate's. It reads one JSON document a line, and answers with one: the seconds of the job. A job
without an end is started (`"waits": false`) and cancelled (`"cancel": true`) by two documents.
"""

import json
import sys
import time
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment


def main() -> None:
    settings = Configuration()
    for key, value in json.loads(sys.argv[1]).items():
        settings.set_string(key, value)
    table_environment = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    )
    answer({"ready": True})
    running: Any = None
    for told in sys.stdin:
        order = json.loads(told)
        if order.get("cancel"):
            running.cancel().result()
            answer({"cancelled": True})
            continue
        for statement in order["tables"]:
            table_environment.execute_sql(statement)
        began = time.monotonic()
        result = table_environment.execute_sql(order["insert"])
        if not order.get("waits", True):
            running = result.get_job_client()
            answer({"started": True})
            continue
        result.wait()
        took = time.monotonic() - began
        for statement in order["afterwards"]:
            table_environment.execute_sql(statement)
        answer({"seconds": took})


def answer(document: dict) -> None:  # type: ignore[type-arg]
    sys.stdout.write("\n" + json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
