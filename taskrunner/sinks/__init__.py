"""Sinks whose output is exactly-once: their records, and how they publish."""
