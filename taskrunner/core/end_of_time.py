"""The time after every event, to which the watermark advances when a bounded job ends."""

END_OF_TIME_MS = 253_402_300_799_000
"""The last second of the year 9999."""
