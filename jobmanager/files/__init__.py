"""The files of snapshots, on a file system or in a store that fsspec reaches.

Used by both programs: the runner keeps and fetches files, the JobManager verifies and
deletes them. `places.open_files` gives the one of the two kinds that a URI means.
"""
