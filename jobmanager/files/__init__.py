"""Storage of any kind behind one port, and what both programs keep in it.

`storage_port` states the operations, `open_storage` gives the implementation that a URI means.
The runner keeps and fetches files, the JobManager verifies and deletes them.
"""
