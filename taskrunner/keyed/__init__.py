"""Keyed operators in Python: pure, and called once for a key group. No Spark in here."""
