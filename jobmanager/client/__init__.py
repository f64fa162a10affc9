"""The Python client, and the command line on top of it."""

from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import HeadgateError, ServerUnreachable

__all__ = ["HeadgateClient", "HeadgateError", "ServerUnreachable"]
