"""Everything that knows PySpark."""
