"""Sends every request to DynamoDB and SQS with a time limit, retries, metering and translated errors.

Lives on the event loop of the AWS thread.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore.loaders import Loader

from swath.backends.aws.client.errors import (
    AWS_ERRORS,
    as_declined,
    check_port,
    is_transient,
    may_have_applied,
    translate_error,
)
from swath.backends.aws.client.metering import Meter
from swath.backends.aws.client.shared_clock import ServerClock

__all__ = ["SERVICE_MODELS", "Answer", "AwsClients", "Intercept", "backoff"]

SERVICE_MODELS: Final = Loader()


Answer = dict[str, Any]
Send = Callable[[], Awaitable[Answer]]
Intercept = Callable[[str, str, dict[str, Any], Send], Awaitable[Answer]]

ATTEMPT_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 15.0
_BACKOFF_SECONDS: Final = (0.05, 2.0)
_CONNECTIONS: Final = 64
_STREAMED_BYTES: Final = 512 * 1024
_OPEN_SECONDS: Final = 30.0
_METERED: Final = frozenset({
    "batch_get_item",
    "batch_write_item",
    "delete_item",
    "get_item",
    "put_item",
    "query",
    "scan",
    "transact_write_items",
    "update_item",
})  # fmt: skip


class _Client(Protocol):
    """What all clients of aiobotocore have in common."""

    @property
    def meta(self) -> Any: ...


class AwsClients:
    """Opens a client at its first request. Region, credentials and endpoints come from the usual AWS environment."""

    def __init__(
        self,
        region: str | None = None,
        *,
        attempt_seconds: float = ATTEMPT_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        intercept: Intercept | None = None,
        time: ServerClock | None = None,
    ) -> None:
        """`patience_seconds` bounds a call with all its tries; `intercept` stands around each try, for tests. `time`
        learns from every answer what time it is in the store."""
        self.meter = Meter()
        self._region = region
        self._attempt_seconds = attempt_seconds
        self._patience_seconds = patience_seconds
        self._intercept = intercept
        self._time = time
        self._session = AioSession()
        self._session.register_component("data_loader", SERVICE_MODELS)
        self._clients: dict[str, _Client] = {}
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()

    @property
    def patience_seconds(self) -> float:
        """How long a call is tried again before it counts as not answered."""
        return self._patience_seconds

    async def call(self, service: str, operation: str, **params: Any) -> Answer:
        """Makes one request, e.g. `call("sqs", "send_message", QueueUrl=…)`, again and again for a while if need be.

        Raises Declined for an answer that says no, StoreUnavailable when there is none in time, UserError when a
        person has to do something.
        """
        if operation in _METERED:
            params["ReturnConsumedCapacity"] = "TOTAL"
        client = await self._client(service, operation)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience_seconds
        may_be_done = False
        tries = 0
        while True:
            tries += 1
            try:
                answer = await self._try(client, service, operation, params)
            except AWS_ERRORS as error:
                no = as_declined(error)
                if no is not None:
                    no.maybe_done = may_be_done
                    self.meter.declined[f"{service}.{operation}"] += 1
                    self.meter.used(operation, params, None)
                    raise no from error
                wait_seconds = backoff(tries)
                if not is_transient(error) or loop.time() + wait_seconds > until:
                    raise translate_error(service, operation, params, self._region_of(service), error) from error
                may_be_done = may_be_done or may_have_applied(error)
                self.meter.again[f"{service}.{operation}"] += 1
                await asyncio.sleep(wait_seconds)
            else:
                self.meter.used(operation, params, answer)
                return answer

    async def close(self) -> None:
        """Closes the connections. On the loop where they were opened."""
        async with self._opening:
            self._clients.clear()
            await self._stack.aclose()

    async def _try(self, client: _Client, service: str, operation: str, params: dict[str, Any]) -> Answer:
        async def send() -> Answer:
            self.meter.requests[f"{service}.{operation}"] += 1
            sent_at = 0.0 if self._time is None else self._time.boot()
            answer: Answer = await getattr(client, operation)(**params)
            if self._time is not None:
                self._time.heard(answer["ResponseMetadata"]["HTTPHeaders"].get("date"), sent_at)
            return answer

        async with asyncio.timeout(self._attempt_seconds + params.get("WaitTimeSeconds", 0)):
            if self._intercept is None:
                return await send()
            return await self._intercept(service, operation, params, send)

    async def _client(self, service: str, operation: str) -> _Client:
        """The client of the service. Opening it takes time of the CPU, and credentials may have to be asked for."""
        if service not in self._clients:
            try:
                async with asyncio.timeout(_OPEN_SECONDS), self._opening:
                    if service not in self._clients:
                        self._clients[service] = await self._opened(service)
            except (*AWS_ERRORS, ValueError) as error:  # botocore raises a ValueError for an endpoint that is no URL
                raise translate_error(service, operation, {}, self._region_of(service), error) from error
        return self._clients[service]

    async def _opened(self, service: str) -> _Client:
        config = AioConfig(
            connect_timeout=self._attempt_seconds,
            read_timeout=60,  # the bound is asyncio.timeout, which knows about long polls
            max_pool_connections=_CONNECTIONS,
            retries={"total_max_attempts": 1},
            parameter_validation=False,  # AWS checks them too
            user_agent="swath",  # to put its own together takes botocore a tenth of the CPU time of a request
        )
        made: Any = self._session.create_client(service, region_name=self._region, config=config)  # type: ignore[call-overload]  # by name
        client: _Client = await self._stack.enter_async_context(made)
        check_port(client.meta.endpoint_url)
        client.meta.events.register("before-send", _stream_large_body)
        return client

    def _region_of(self, service: str) -> str:
        client = self._clients.get(service)
        return str(client.meta.region_name) if client is not None else self._region or "unknown"


def _stream_large_body(request: Any, **_: object) -> None:
    """Lets a large body be sent bit by bit; aiohttp would write it in one go and hold up everybody else."""
    if isinstance(request.body, bytes) and len(request.body) > _STREAMED_BYTES:
        request.body = io.BytesIO(request.body)


def backoff(tries: int) -> float:
    """Seconds to wait after so many tries in vain: anything up to a bound that doubles, so that callers spread out."""
    first, most = _BACKOFF_SECONDS
    return random.uniform(0.0, min(most, first * 2.0 ** min(tries - 1, 16)))  # noqa: S311 jitter needs no crypto
