"""Communication with the JobManager: the runner makes all calls, and repeats them."""
