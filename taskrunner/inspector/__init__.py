"""The inspector: answers questions about state, for a JobManager that has no Spark itself."""
