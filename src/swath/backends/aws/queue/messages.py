"""Messages: hints as SQS carries them, in batches of ten, and what can be done to one that was received.

Lives on the loop of bridge.py. receiver.py waits for them; queue.py decides what becomes of them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from swath.backends.aws.calls.client import Answer, AwsClients
from swath.backends.aws.calls.errors import Declined
from swath.backends.aws.setup import QueueNames
from swath.domain.errors import StoreUnavailable, SwathError
from swath.domain.job import WaitingFor
from swath.ports.work_queue import Hint

__all__ = ["Messages", "Received"]

T = TypeVar("T")

_BATCH: Final = 10  # what SQS takes at once
_LONGEST_VISIBILITY_SECONDS: Final = 12 * 3_600
_decoder = msgspec.json.Decoder(Hint)
_log = logging.getLogger("swath.queue")


class Received(NamedTuple):
    """A hint with the handle under which SQS lets us do something to it, until somebody else has received it."""

    hint: Hint
    queue: str
    handle: str


class Messages:
    """The queues of one name. Raises StoreUnavailable, waiting for the queue, whatever SQS has against us: nobody needs
    it so much that a person's mistake should stop a worker."""

    def __init__(self, clients: AwsClients, name: str, lease_seconds: float) -> None:
        self.names = QueueNames.of(name)
        self._clients = clients
        self._urls: dict[str, str] = {}
        seconds = math.ceil(lease_seconds)
        self._visibility_seconds = min(max(1, seconds), _LONGEST_VISIBILITY_SECONDS)

    async def send(self, queue: str, hints: Sequence[Hint]) -> None:
        """What SQS leaves out of a batch is as good as lost on its way: the sweeper tells it again."""
        for batch in _batches(hints):
            entries = [{"Id": str(n), "MessageBody": msgspec.json.encode(hint).decode()} for n, hint in batch]
            await self._call(queue, "send_message_batch", Entries=entries)

    async def receive(self, queue: str, wait_seconds: int) -> Received | None:
        """The next hint, which stays hidden from others for the length of a lease. Waits for one so long."""
        answer = await self._call(
            queue,
            "receive_message",
            MaxNumberOfMessages=1,
            WaitTimeSeconds=wait_seconds,
            VisibilityTimeout=self._visibility_seconds,
        )
        for message in answer.get("Messages") or ():
            handle = message["ReceiptHandle"]
            try:
                hint = _decoder.decode(message["Body"])
            except (msgspec.MsgspecError, KeyError) as error:
                _log.warning("a message in queue %s is no hint, and is thrown away: %s", queue, error)
                await self.delete([Received(Hint(job_id=""), queue, handle)])
                continue
            return Received(msgspec.structs.replace(hint, express=queue == self.names.express), queue, handle)
        return None

    async def hide(self, received: Sequence[Received]) -> list[Received]:
        """Keeps messages hidden for another length of a lease; answers with those that are still ours."""
        return await self._show_after(received, self._visibility_seconds)

    async def show(self, received: Sequence[Received]) -> None:
        """Lets others have them at once."""
        await self._show_after(received, 0)

    async def _show_after(self, received: Sequence[Received], seconds: int) -> list[Received]:
        """SQS refuses a handle that is out of date, and to hide a message for more than twelve hours in all."""
        ours: list[Received] = []
        for queue, batch in self._by_queue(received):
            entries = [
                {"Id": str(n), "ReceiptHandle": one.handle, "VisibilityTimeout": seconds} for n, one in enumerate(batch)
            ]
            answer = await self._call(queue, "change_message_visibility_batch", Entries=entries)
            ours += [batch[int(entry["Id"])] for entry in answer.get("Successful") or ()]
        return ours

    async def delete(self, received: Sequence[Received]) -> None:
        """They are used up. One that somebody else has received meanwhile stays with them."""
        for queue, batch in self._by_queue(received):
            entries = [{"Id": str(n), "ReceiptHandle": one.handle} for n, one in enumerate(batch)]
            await self._call(queue, "delete_message_batch", Entries=entries)

    async def waiting(self) -> int:
        """About how many nobody has received."""
        counted = "ApproximateNumberOfMessages"
        answers = [
            await self._call(queue, "get_queue_attributes", AttributeNames=[counted])
            for queue in (self.names.express, self.names.main)
        ]
        return sum(int(answer.get("Attributes", {}).get(counted, 0)) for answer in answers)

    def _by_queue(self, received: Sequence[Received]) -> Iterator[tuple[str, list[Received]]]:
        for queue in (self.names.express, self.names.main):
            mine = [one for one in received if one.queue == queue]
            for batch in _batches(mine):
                yield queue, [one for _, one in batch]

    async def _call(self, queue: str, operation: str, **params: Any) -> Answer:
        try:
            if queue not in self._urls:
                found = await self._clients.call("sqs", "get_queue_url", QueueName=queue)
                self._urls[queue] = str(found["QueueUrl"])
            return await self._clients.call("sqs", operation, QueueUrl=self._urls[queue], **params)
        except Declined as no:
            _log.debug("%s: %s", operation, no)  # a handle that is out of date, where a whole batch is answered so
            return {}
        except StoreUnavailable:
            raise
        except SwathError as error:
            raise StoreUnavailable(str(error), WaitingFor.QUEUE) from error


def _batches(things: Sequence[T]) -> Iterator[list[tuple[int, T]]]:
    numbered = list(enumerate(things))
    for start in range(0, len(numbered), _BATCH):
        yield numbered[start : start + _BATCH]
