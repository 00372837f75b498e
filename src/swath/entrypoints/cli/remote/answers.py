"""Client: asks a controller, and makes values or the errors of the domain of what it answers. Before: wire.py.

So a command says and exits the same, whether the store is here or behind a controller.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from swath import __version__
from swath.domain.errors import BadInput, Conflict, StoreUnavailable, SwathError, UnknownName, UserError
from swath.domain.job import WaitingFor
from swath.domain.secret import Secret
from swath.entrypoints.cli.remote.address import Address
from swath.entrypoints.cli.remote.wire import Answer, Wire

__all__ = ["Busy", "Client", "Refused"]

_JSON: Final = {"Content-Type": "application/json"}
_UNKNOWN: Final = frozenset({"job_not_found", "item_not_found", "scraper_not_found"})
_SOME_SECONDS: Final = 5.0
_NO_ANSWER: Final = Answer(200, {}, b"")  # for an error inside of an answer that had begun
Query = Mapping[str, Any]


class Refused(BadInput):
    """The controller refuses what was sent; `details` says which parts of it, or how far a load came."""

    def __init__(self, message: str, details: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.details = details


class Busy(SwathError):
    """The controller wants no more just now."""

    def __init__(self, message: str, wait_seconds: float) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class Client:
    """Answers are the `data` of the envelope. Raises Unreachable, and UserError or SwathError by the error's code."""

    def __init__(self, address: Address, key: Secret | None) -> None:
        self.address = address
        self.wire = Wire(address, {} if key is None else {"X-Service-Key": key.reveal()})
        self._has_key = key is not None

    async def ask(self, method: str, *path: str, query: Query | None = None, body: object = None) -> Any:
        """One request; `body` is sent as JSON."""
        raw = b"" if body is None else msgspec.json.encode(body)
        answer = await self.wire.ask(method, self._path(path, query), raw, {} if body is None else _JSON)
        return self.data_of(answer)

    async def send(
        self, *path: str, chunks: AsyncIterable[bytes], query: Query | None = None, headers: Mapping[str, str]
    ) -> Any:
        """Posts a stream."""
        return self.data_of(await self.wire.send(self._path(path, query), chunks, headers))

    def data_of(self, answer: Answer) -> Any:
        """What a success carries. Raises as the class says."""
        try:
            body = json.loads(answer.body)
            success, data, error = body["success"], body["data"], body["error"]
        except (ValueError, TypeError, KeyError):
            raise self._foreign(answer) from None
        if success is True and answer.status < 300:
            return data
        raise self.failure_of(error, answer)

    def failure_of(self, error: Any, answer: Answer = _NO_ANSWER) -> SwathError:
        """What an error of the API says."""
        with self.understanding():
            return self._failure(error["code"], error["message"], error["details"] or {}, answer)

    @contextmanager
    def understanding(self) -> Iterator[None]:
        """Around making values of an answer, whose shape another version may have changed. Raises SwathError."""
        try:
            yield
        except (KeyError, TypeError, AttributeError, ValueError, msgspec.MsgspecError) as error:
            told = f"{type(error).__name__}: {error}".splitlines()[0]
            raise SwathError(
                f"{self.address.url} answered in a way that swath {__version__} does not understand, so it may be of "
                f"another version ({told})"
            ) from error

    def _path(self, segments: tuple[str, ...], query: Query | None) -> str:
        asked = {name: value for name, value in (query or {}).items() if value is not None}
        return self.address.path(*segments) + (f"?{urlencode(asked, doseq=True)}" if asked else "")

    def _foreign(self, answer: Answer) -> UserError:
        kind = answer.headers.get("content-type", "no type").partition(";")[0]
        where = f", and points to {answer.headers['location']}" if "location" in answer.headers else ""
        told = f"{self.address.url} is no Swath controller: it answered {answer.status} with {kind}{where}"
        return UserError(f"{told}; check --server")

    def _failure(self, code: str, message: str, details: Mapping[str, Any], answer: Answer) -> SwathError:
        if code in _UNKNOWN:
            return UnknownName(message)
        match code:
            case "validation_error" | "payload_too_large":
                return Refused(message, details)
            case "conflict":
                return Conflict(message, details.get("row"))
            case "authentication_error" | "forbidden":
                return self._denied(code, message)
            case "store_unavailable":
                waiting_for = WaitingFor(details.get("waiting_for") or WaitingFor.STORE)
                told = f"{self.address.url} waits for the {waiting_for}: {message}"
                return StoreUnavailable(told, waiting_for)
            case "rate_limited":
                return Busy(f"{self.address.url}: {message}", _wait_seconds(answer))
            case "not_found" | "method_not_allowed":
                return UserError(f"{self.address.url} does not know that request, so it may be of another version")
        told = f"{message} (request {answer.headers.get('x-request-id', 'without an id')})"
        return SwathError(f"{self.address.url}: {code}: {told}")

    def _denied(self, code: str, message: str) -> UserError:
        if code == "forbidden":
            return UserError(f"{self.address.url} does not allow that: {message}")
        hint = "SWATH_SERVICE_KEY is the key that was sent" if self._has_key else "set SWATH_SERVICE_KEY"
        return UserError(f"{self.address.url} does not let us in: {message} ({hint})")


def _wait_seconds(answer: Answer) -> float:
    try:
        return min(60.0, max(1.0, float(answer.headers.get("retry-after", _SOME_SECONDS))))
    except ValueError:
        return _SOME_SECONDS
