"""The Python client, and the command line on top of it."""

from jobmanager.client.async_client import AsyncClient
from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import (
    ConflictingRequest,
    HeadgateError,
    InvalidRequest,
    JobEnded,
    MissingResource,
    NotAuthenticated,
    NotPermitted,
    OperationFailed,
    RequestRefused,
    ServerFault,
    ServerNotReady,
    ServerUnreachable,
    UnknownJob,
    WaitTimeout,
)
from jobmanager.client.job_handle import AsyncJobHandle, JobHandle
from jobmanager.client.server_events import ServerEvent
from jobmanager.client.sync_client import Client

__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "ConflictingRequest",
    "HeadgateClient",
    "HeadgateError",
    "InvalidRequest",
    "JobEnded",
    "JobHandle",
    "MissingResource",
    "NotAuthenticated",
    "NotPermitted",
    "OperationFailed",
    "RequestRefused",
    "ServerEvent",
    "ServerFault",
    "ServerNotReady",
    "ServerUnreachable",
    "UnknownJob",
    "WaitTimeout",
]
