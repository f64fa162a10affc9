"""Packaged graph algorithms, each a loop over DataFrames."""
