"""The API for user code that runs in a job.

    from taskrunner.api import Context, ProcessFunction, Row, ValueState, count

`taskrunner.api.harness` runs such code in a unit test, without Spark. See
docs/process-functions.md.
"""

from taskrunner.api.accumulators import count, highest, lowest
from taskrunner.api.process import Context, ProcessFunction, Row
from taskrunner.api.state import ListState, MapState, ValueState

__all__ = [
    "Context",
    "ListState",
    "MapState",
    "ProcessFunction",
    "Row",
    "ValueState",
    "count",
    "highest",
    "lowest",
]
