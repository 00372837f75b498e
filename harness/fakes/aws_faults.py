"""Faults of DynamoDB and SQS that no local server produces, injected into AwsClients. Deterministic for a seed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from botocore.exceptions import ClientError, EndpointConnectionError

from swath.backends.aws.client.client import Answer, Send

__all__ = ["Faults", "Rates"]

_LATE_SECONDS: Final = 3
DELAY_SECONDS: Final = (0.5, 6.0)  # of an answer; beyond the shortest leases of tests
_THROTTLES: Final = {"dynamodb": "ProvisionedThroughputExceededException", "sqs": "RequestThrottled"}
_BATCHES: Final = {"batch_write_item": "UnprocessedItems", "batch_get_item": "UnprocessedKeys"}


class Rates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often each fault happens: the probability for one request, or for one message."""

    throttled: float = 0.0
    conflict: float = 0.0  # another transaction on the same rows
    server_error: float = 0.0  # 500; every other one although the request was carried out
    lost_answer: float = 0.0  # a timeout after success
    delayed: float = 0.0  # an answer that comes seconds after the request was carried out
    unprocessed: float = 0.0  # batches of which a part is left undone
    lost: float = 0.0  # messages that were sent, and deletes that were made, to no effect
    duplicated: float = 0.0  # messages that arrive twice
    late: float = 0.0  # messages that arrive seconds after others
    reordered: float = 0.0  # receives whose messages are kept back for a later one


class Faults:
    """One for each AwsClients. `injected` counts what was done, `messages` what queues were given and gave; services in
    `down` do not answer at all."""

    def __init__(self, seed: int, rates: Rates) -> None:
        self.rates = rates
        self.down: set[str] = set()
        self.injected: Counter[str] = Counter()
        self.messages: Counter[str] = Counter()
        self._random = random.Random(seed)  # noqa: S311 faults need no crypto
        self._again: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        """Carries out the request, or not, or twice."""
        if service in self.down:
            raise EndpointConnectionError(endpoint_url=f"http://{service}.invalid")
        if self._happens("throttled"):
            raise _refusal(_THROTTLES.get(service, "SlowDown"), operation, 400)
        if operation == "transact_write_items" and self._happens("conflict"):
            raise _cancelled(len(params["TransactItems"]), operation)
        if self._happens("server_error"):
            if self._random.random() < 0.5:
                await send()
            raise _refusal("InternalServerError", operation, 500)
        answer = await self._carried_out(operation, params, send)
        if self._happens("delayed"):
            await asyncio.sleep(self._random.uniform(*DELAY_SECONDS))
        if self._happens("lost_answer"):
            raise TimeoutError(f"the answer to {operation} was lost")
        return answer

    async def _carried_out(self, operation: str, params: dict[str, Any], send: Send) -> Answer:
        if operation in _BATCHES and self._happens("unprocessed"):
            return await self._partly(operation, params, send)
        if operation == "send_message_batch":
            return await self._sent(params, send)
        if operation == "receive_message":
            return self._received(params, await send())
        if operation in {"delete_message", "delete_message_batch"} and self._happens("lost", "lost_delete"):
            return {"Successful": [{"Id": entry["Id"]} for entry in params.get("Entries", ())], "Failed": []}
        return await send()

    async def _partly(self, operation: str, params: dict[str, Any], send: Send) -> Answer:
        """Leaves a random part undone, sometimes all of it."""

        def listed(batch: Any) -> list[Any]:
            return batch if isinstance(batch, list) else batch["Keys"]  # writes, or reads

        ((table, wanted),) = params["RequestItems"].items()
        whole = listed(wanted)
        done = self._random.randrange(len(whole))

        def some(part: list[Any]) -> dict[str, Any]:
            return {table: part if isinstance(wanted, list) else {**wanted, "Keys": part}}

        if not done:
            return {"Responses": {}, _BATCHES[operation]: some(whole)}
        with _instead(params, "RequestItems", some(whole[:done])):
            answer = await send()
        put_off = (answer.get(_BATCHES[operation]) or {}).get(table, [])  # by the server itself
        return {**answer, _BATCHES[operation]: some([*whole[done:], *listed(put_off)])}

    async def _sent(self, params: dict[str, Any], send: Send) -> Answer:
        """Each message has a fate of its own, and the answer says of all of them that they were sent."""
        entries = params["Entries"]
        self.messages["sent"] += len(entries)
        lost = [one for one in entries if self._happens("lost")]
        arriving = [self._perhaps_late(one) for one in entries if one not in lost]
        twice = [one for one in arriving if self._happens("duplicated")]
        answer: Answer = {}
        for batch in (twice, arriving):
            if batch:
                with _instead(params, "Entries", batch):
                    answer = await send()
        unheard = ({"Id": one["Id"], "MessageId": "lost"} for one in lost)
        return {**answer, "Successful": [*answer.get("Successful", ()), *unheard]}

    def _perhaps_late(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "DelaySeconds": _LATE_SECONDS} if self._happens("late") else entry

    def _received(self, params: dict[str, Any], answer: Answer) -> Answer:
        """Some come again later; some are kept back, and come with a later receive or when their time is over."""
        queue = params["QueueUrl"]
        earlier: list[dict[str, Any]] = []
        if self._random.random() < 0.5:
            earlier = [message for of, message in self._again if of == queue]
            self._again = [pair for pair in self._again if pair[0] != queue]
        messages = list(answer.get("Messages", ()))
        self.messages["received"] += len(messages)
        if messages and self._happens("reordered"):
            self._again += [(queue, message) for message in messages]
            messages = []
        self._again += [(queue, message) for message in messages if self._happens("duplicated", "repeated")]
        messages += earlier
        self._random.shuffle(messages)
        most = params.get("MaxNumberOfMessages", 1)
        self._again += [(queue, message) for message in messages[most:]]
        return {**answer, "Messages": messages[:most]}

    def _happens(self, kind: str, counted_as: str | None = None) -> bool:
        rate: float = getattr(self.rates, kind)
        happens = self._random.random() < rate
        self.injected[counted_as or kind] += happens
        return happens


@contextmanager
def _instead(params: dict[str, Any], key: str, value: Any) -> Iterator[None]:
    """Sends other parameters; a repeated request has the true ones again."""
    before = dict(params)
    params[key] = value
    try:
        yield
    finally:
        params.clear()
        params.update(before)


def _refusal(code: str, operation: str, status: int) -> ClientError:
    said: Any = {"Error": {"Code": code, "Message": "injected"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(said, operation)


def _cancelled(actions: int, operation: str) -> ClientError:
    error = _refusal("TransactionCanceledException", operation, 400)
    reasons: Any = [{"Code": "TransactionConflict"}] + [{"Code": "None"}] * (actions - 1)
    error.response["CancellationReasons"] = reasons
    return error
