"""The shapes of Flink's own routes: Flink's field names, and times in epoch milliseconds."""
