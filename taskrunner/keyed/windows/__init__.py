"""Windows that are computed in Python, by key group: buffers, triggers, evictors. Pure."""
