"""Talking to the JobManager: only outward, and with patience."""
