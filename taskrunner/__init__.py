"""The task runner: the PySpark driver of one job."""
