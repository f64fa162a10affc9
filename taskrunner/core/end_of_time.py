"""The time after every event, to which the watermark advances when a bounded job ends."""

from jobmanager.core.snapshots.manifest import END_OF_TIME

END_OF_TIME_MS = int(END_OF_TIME.timestamp()) * 1000
"""The last second of the year 9999."""
