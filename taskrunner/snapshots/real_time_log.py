"""Spark's logs of a query in real-time mode."""

from taskrunner.snapshots.spark_log import SparkLog


class RealTimeLog(SparkLog):
    """The logs of a query that is in a batch at all times.

    Spark does not log the begin of such a batch: where it ends is known only afterwards, and then
    both entries are written at once. A barrier waits for the batch under way all the same.
    """

    def last_begun(self) -> int | None:
        last = self.last_committed()
        return 0 if last is None else last + 1
