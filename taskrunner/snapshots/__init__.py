"""The job's directory in storage: fence, pool, manifests, and clones for new attempts."""
