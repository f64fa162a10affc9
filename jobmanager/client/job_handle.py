"""A handle of a job that a program has submitted."""

from jobmanager.client import answers, following
from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import HeadgateError


class JobHandle:
    """A job on a server. Methods wait for the outcome, at most `timeout` seconds."""

    def __init__(self, client: HeadgateClient, job_id: str) -> None:
        self.id = job_id
        self._client = client

    def status(self) -> answers.StatusResponse:
        return self._client.status(self.id)

    @property
    def state(self) -> str:
        """Return Flink's name of the state: RUNNING, FINISHED, CANCELED…"""
        return str(self._client.job(self.id)["state"])

    def wait(self, timeout: float = 3600.0) -> str:
        """Wait for the job's end and return its state. Raises if it failed or has not ended in
        time.
        """
        state = self._client.wait_until_ended(self.id, timeout=timeout)
        if state is None:
            raise HeadgateError(f"job {self.id} has not ended within {timeout:.0f} s")
        if state == "FAILED":
            raise HeadgateError(f"job {self.id} failed: {self.status()['reason']}")
        return state

    def savepoint(self, target: str | None = None, timeout: float = 600.0) -> str:
        """Take a savepoint and return its id."""
        return self._savepoint_of(self._client.take_savepoint(self.id, target=target), timeout)

    def stop(
        self, *, drain: bool = False, target: str | None = None, timeout: float = 600.0
    ) -> str:
        """Stop the job with a savepoint and return the savepoint's id."""
        operation = self._client.stop(self.id, drain=drain, target=target)
        return self._savepoint_of(operation, timeout)

    def rescale(self, parallelism: int, timeout: float = 600.0) -> None:
        self._until_completed(self._client.rescale(self.id, parallelism), timeout)

    def cancel(self, timeout: float = 120.0) -> str:
        """Cancel the job after its current batch and return its final state."""
        self._client.cancel(self.id)
        state = self._client.wait_until_ended(self.id, timeout=timeout)
        if state is None:
            raise HeadgateError(f"job {self.id} has not ended within {timeout:.0f} s")
        return state

    def _savepoint_of(self, operation_id: str, timeout: float) -> str:
        result = self._until_completed(operation_id, timeout)["result"]
        assert result is not None, "a completed operation has its savepoint"
        return result["savepoint"]

    def _until_completed(self, operation_id: str, timeout: float) -> answers.OperationResponse:
        operation = following.until_ended(self._client, operation_id, timeout)
        if operation["status"] != "completed":
            raise HeadgateError(f"{operation['kind']} is not done after {timeout:.0f} s")
        return operation
