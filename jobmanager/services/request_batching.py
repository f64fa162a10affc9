"""Answers requests that arrive at the same time together.

With hundreds of runners, a transaction for each request would be most of a server's work. So a
request that arrives while a batch of requests is answered waits for the next batch, and a batch is
one transaction. A single request is answered at once, or nearly so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(eq=False)
class PendingRequest(Generic[Asked, Answer]):
    """A request that waits for its answer."""

    asked: Asked
    answer: asyncio.Future[Answer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def is_open(self) -> bool:
        """False: the request was answered, or its caller has gone."""
        return not self.answer.done()

    def resolve(self, answer: Answer) -> None:
        if self.is_open:
            self.answer.set_result(answer)

    def refuse(self, error: Exception) -> None:
        if self.is_open:
            self.answer.set_exception(error)


class RequestBatcher(Generic[Asked, Answer]):
    """Calls `serve` with batches of requests. `serve` resolves or refuses each request; if it
    raises, the error is the answer to the remaining requests.
    """

    def __init__(
        self,
        serve: Callable[[Sequence[PendingRequest[Asked, Answer]]], Awaitable[None]],
        gather_seconds: float,
    ) -> None:
        self._serve = serve
        self._gather_seconds = gather_seconds
        self._waiting: list[PendingRequest[Asked, Answer]] = []
        self._serving: asyncio.Task[None] | None = None

    async def ask(self, asked: Asked) -> Answer:
        waiting: PendingRequest[Asked, Answer] = PendingRequest(asked)
        self._waiting.append(waiting)
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve_all(), name="gathering")
        return await waiting.answer

    async def _serve_all(self) -> None:
        while self._waiting:
            await asyncio.sleep(self._gather_seconds)
            round_, self._waiting = [one for one in self._waiting if one.is_open], []
            if not round_:
                continue
            try:
                await self._serve(round_)
            except Exception as error:
                for one in round_:
                    one.refuse(error)
            else:
                for one in round_:
                    one.refuse(AssertionError("a request was left without an answer"))
