"""Sinks whose output is exactly once: what they record, and how they publish."""
