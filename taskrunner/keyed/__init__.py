"""Keyed operators in Python: pure, and called once for each key group. No Spark in here."""
