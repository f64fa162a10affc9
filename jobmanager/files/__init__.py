"""Storage of any kind behind one port, and what both programs store there.

`storage_port` defines the operations, `open_storage` returns the implementation for a URI. The
runner keeps and fetches files, the JobManager verifies and deletes them.
"""
