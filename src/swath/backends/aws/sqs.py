"""One worker's end of the work queue on SQS. A message is a hint: a worker that receives one asks the store.

A hint stays hidden from others for the length of a lease, extended by heartbeats, so a hint whose worker dies wakes
another one. A long poll cannot be cancelled, since it may already hold a message; so the receiver waits a moment
longer
after nobody wants a hint any more, and then returns to the queue what arrived. Messages are sent in batches of ten.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import math
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from swath.backends.aws.client.client import Answer, AwsClients
from swath.backends.aws.client.errors import RequestDeclined
from swath.backends.aws.client.event_loop_thread import EventLoopThread
from swath.backends.aws.provisioning import QueueNames
from swath.domain.errors import StoreUnavailable, SwathError
from swath.domain.job import WaitingFor
from swath.ports.work_queue import WorkHint

__all__ = ["HintMessages", "HintReceiver", "ReceivedHint", "SqsQueue"]

T = TypeVar("T")

_BATCH: Final = 10  # what SQS takes at once
_LONGEST_VISIBILITY_SECONDS: Final = 12 * 3_600
_decoder = msgspec.json.Decoder(WorkHint)
_log = logging.getLogger("swath.queue")


class ReceivedHint(NamedTuple):
    """A hint with the handle under which SQS lets us do something to it, until somebody else has received it."""

    hint: WorkHint
    queue: str
    handle: str


class HintMessages:
    """The queues of one name. Raises StoreUnavailable, waiting for the queue, whatever SQS has against us: nobody needs
    it so much that a person's mistake should stop a worker."""

    def __init__(self, clients: AwsClients, name: str, lease_seconds: float) -> None:
        self.names = QueueNames.of(name)
        self._clients = clients
        self._urls: dict[str, str] = {}
        seconds = math.ceil(lease_seconds)
        self._visibility_seconds = min(max(1, seconds), _LONGEST_VISIBILITY_SECONDS)

    async def send(self, queue: str, hints: Sequence[WorkHint]) -> None:
        """What SQS leaves out of a batch is as good as lost on its way: the sweeper tells it again."""
        for batch in _batches(hints):
            entries = [{"Id": str(n), "MessageBody": msgspec.json.encode(hint).decode()} for n, hint in batch]
            await self._call(queue, "send_message_batch", Entries=entries)

    async def receive(self, queue: str, wait_seconds: int) -> ReceivedHint | None:
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
                await self.delete([ReceivedHint(WorkHint(job_id=""), queue, handle)])
                continue
            return ReceivedHint(msgspec.structs.replace(hint, express=queue == self.names.express), queue, handle)
        return None

    async def hide(self, received: Sequence[ReceivedHint]) -> list[ReceivedHint]:
        """Keeps messages hidden for another length of a lease; answers with those that are still ours."""
        return await self._show_after(received, self._visibility_seconds)

    async def show(self, received: Sequence[ReceivedHint]) -> None:
        """Lets others have them at once."""
        await self._show_after(received, 0)

    async def _show_after(self, received: Sequence[ReceivedHint], seconds: int) -> list[ReceivedHint]:
        """SQS refuses a handle that is out of date, and to hide a message for more than twelve hours in all."""
        ours: list[ReceivedHint] = []
        for queue, batch in self._by_queue(received):
            entries = [
                {"Id": str(n), "ReceiptHandle": one.handle, "VisibilityTimeout": seconds} for n, one in enumerate(batch)
            ]
            answer = await self._call(queue, "change_message_visibility_batch", Entries=entries)
            ours += [batch[int(entry["Id"])] for entry in answer.get("Successful") or ()]
        return ours

    async def delete(self, received: Sequence[ReceivedHint]) -> None:
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

    def _by_queue(self, received: Sequence[ReceivedHint]) -> Iterator[tuple[str, list[ReceivedHint]]]:
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
        except RequestDeclined as no:
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


POLL_SECONDS: Final = 20  # as long as SQS allows: an idle worker costs six requests a minute
TRY_SECONDS: Final = 1  # the same for a queue that did not answer, so that it is soon known to be back
LINGER_SECONDS: Final = 1.0
EXPRESS_SECONDS: Final = 0.05  # that an ordinary hint waits for an express one which may be on its way
GIVE_BACK_SECONDS: Final = 2.0


class HintReceiver:
    """One for each end of the queue."""

    def __init__(self, messages: HintMessages) -> None:
        self._messages = messages
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._come: list[ReceivedHint] = []
        self._troubles: dict[str, StoreUnavailable] = {}  # by queue, until it answers again
        self._news = asyncio.Event()
        self._wanting = 0
        self._last_wanted = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, seconds: float) -> ReceivedHint | None:
        """The next hint, an express one first. Raises StoreUnavailable when a queue does not answer."""
        self._wanting += 1
        try:
            async with asyncio.timeout(seconds):
                while not self._come:
                    self._poll()
                    self._news.clear()
                    await self._news.wait()
                    self._raise_trouble()
                await self._let_express_overtake()
        except TimeoutError:
            if not self._come and self._troubles:  # a queue that was gone has not answered yet
                raise next(iter(self._troubles.values())) from None
        finally:
            self._wanting -= 1
            self._last_wanted = asyncio.get_running_loop().time()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._leave)
        first = min(self._come, key=lambda received: not received.hint.express, default=None)
        if first is not None:
            self._come.remove(first)
        return first

    async def _let_express_overtake(self) -> None:
        express = self._polls.get(self._messages.names.express)
        if express is not None and not any(received.hint.express for received in self._come):
            await asyncio.wait({express}, timeout=EXPRESS_SECONDS)

    def _poll(self) -> None:
        names = self._messages.names
        for queue in (names.express, names.main):
            if queue not in self._polls:
                self._polls[queue] = asyncio.create_task(self._receive(queue))

    async def _receive(self, queue: str) -> None:
        """Ends with the first message, so that no more come than are wanted."""
        try:
            received = None
            while received is None:
                seconds = TRY_SECONDS if queue in self._troubles else POLL_SECONDS
                received = await self._messages.receive(queue, seconds)
                self._troubles.pop(queue, None)
            self._come.append(received)
        except StoreUnavailable as error:
            self._troubles[queue] = error
        finally:
            self._polls.pop(queue, None)
            self._news.set()

    def _raise_trouble(self) -> None:
        """What was met before, and is being tried again, is none yet."""
        for queue, trouble in self._troubles.items():
            if queue not in self._polls and not self._come:
                raise trouble

    def _leave(self) -> None:
        """Nobody has wanted a hint for a moment."""
        quiet_seconds = asyncio.get_running_loop().time() - self._last_wanted
        if not self._wanting and quiet_seconds >= 0.9 * LINGER_SECONDS:  # not a timer of an earlier time
            task = asyncio.create_task(self.stop())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Waits no longer, and lets others have what came too late. Bounded, and never fails."""
        polls = list(self._polls.values())
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        late, self._come = self._come, []
        if late:
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(GIVE_BACK_SECONDS):
                    await self._messages.show(late)


PATIENCE_SECONDS: Final = 20.0
CLOSE_SECONDS: Final = 3.0


class SqsQueue:
    """Implements WorkQueue. Its clients should be its own: they are kept busy waiting, and lose patience early."""

    def __init__(self, bridge: EventLoopThread, clients: AwsClients, name: str, lease_seconds: float) -> None:
        self._bridge = bridge
        self._messages = HintMessages(clients, name, lease_seconds)
        self._receiver = HintReceiver(self._messages)
        self._held: list[ReceivedHint] = []
        self._lock = threading.Lock()  # signs of life may come from another thread
        self._closed = False

    @property
    def patience_seconds(self) -> float:
        return PATIENCE_SECONDS

    async def announce(self, hints: Sequence[WorkHint]) -> None:
        names = self._messages.names
        for queue, express in ((names.express, True), (names.main, False)):
            mine = [hint for hint in hints if hint.express is express]
            if mine:
                await self._run(functools.partial(self._messages.send, queue, mine))

    async def wait(self, seconds: float) -> WorkHint | None:
        received = await self._run(lambda: self._receiver.take(seconds))
        if received is None:
            return None
        with self._lock:  # only here, where nobody can cancel us any more: else it would be kept for nobody
            self._held.append(received)
        return received.hint

    async def keep(self) -> None:
        """What is no longer ours is forgotten: somebody else was told."""
        with self._lock:
            held = list(self._held)
        if held:
            ours = await self._run(lambda: self._messages.hide(held))
            lost = [received for received in held if received not in ours]
            with self._lock:
                self._held = [received for received in self._held if received not in lost]

    async def settle(self, job_id: str) -> None:
        with self._lock:
            settled = [received for received in self._held if received.hint.job_id == job_id]
            self._held = [received for received in self._held if received.hint.job_id != job_id]
        if settled:
            await self._run(lambda: self._messages.delete(settled))

    async def waiting(self) -> int:
        return await self._run(self._messages.waiting)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        held, self._held = self._held, []
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._bridge.run(self._receiver.stop)
                if held:
                    await self._bridge.run(lambda: self._messages.show(held))

    async def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._closed:
            raise StoreUnavailable("the queue is closed", WaitingFor.QUEUE)
        return await self._bridge.run(make)
