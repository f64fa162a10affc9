"""Ports: what the use cases need from outside, by subject. `store`, `files` and `launchers`
implement them.
"""
