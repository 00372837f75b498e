"""Counts the requests that this process makes of AWS and the capacity they use, and what they cost.

List prices of us-east-1 in US dollars, as published in autumn 2025, without free tiers and discounts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from swath.backends.aws.client.rows import NONCES_BYTES

__all__ = ["PRICES", "Meter", "Prices", "dollars"]

_READS: Final = frozenset({"batch_get_item", "get_item", "query", "scan", "transact_get_items"})
_UNIT_BYTES: Final = 1024


class Meter(msgspec.Struct):
    """Counted per `service.operation`: every request sent, and those of them that were sent again or declined.

    The units are DynamoDB's own, as it reports them, but for writes that it declines, which cost and are not
    reported, and for transactions, of which DynamoDB Local counts several rows of one size only once: what is
    reported is raised to what the rows that were sent must cost.
    """

    requests: Counter[str] = msgspec.field(default_factory=Counter)
    again: Counter[str] = msgspec.field(default_factory=Counter)
    declined: Counter[str] = msgspec.field(default_factory=Counter)
    read_units: float = 0.0
    write_units: float = 0.0

    def used(self, operation: str, params: Mapping[str, Any], answer: Mapping[str, Any] | None) -> None:
        """Adds the capacity that a request has cost; `answer` is None for one that was declined."""
        consumed = (answer or {}).get("ConsumedCapacity") or ()
        parts = (consumed,) if isinstance(consumed, Mapping) else consumed
        units = sum(float(part.get("CapacityUnits", 0.0)) for part in parts)
        if operation in _READS:
            self.read_units += units
        elif operation == "transact_write_items":
            rows = (next(iter(action.values())) for action in params["TransactItems"])
            self.write_units += max(units, 2.0 * sum(map(_write_units, rows)))
        elif answer is None and operation in {"put_item", "update_item"}:
            self.write_units += _write_units(params)
        else:
            self.write_units += units

    def of(self, service: str) -> int:
        """All requests to one service."""
        return sum(count for name, count in self.requests.items() if name.startswith(service + "."))


def _write_units(row: Mapping[str, Any]) -> int:
    """What writing one row costs by what is sent of it; of a row that is deleted that is only its key."""
    sent = row.get("Item") or {**row["Key"], **row.get("ExpressionAttributeValues", {})}
    nonces_bytes = NONCES_BYTES if "UpdateExpression" in row else 0
    size_bytes = sum(_size_bytes(name) + _size_bytes(next(iter(value.values()))) for name, value in sent.items())
    return max(1, math.ceil((size_bytes + nonces_bytes) / _UNIT_BYTES))


def _size_bytes(value: str | bytes) -> int:
    return len(value.encode()) if isinstance(value, str) else len(value)


_MILLION: Final = 1_000_000
GB: Final = 1 << 30


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Requests per million, storage per GB and month."""

    write_units: float = 0.625
    read_units: float = 0.125
    table_gb_month: float = 0.25
    sqs_requests: float = 0.40
    s3_writes: float = 5.00
    s3_reads: float = 0.40
    s3_gb_month: float = 0.023


PRICES: Final = Prices()


# S3 charges whatever writes or lists alike, what reads less, and nothing for what deletes.
_S3_FREE: Final = frozenset({"s3.delete_objects"})
_S3_READS: Final = frozenset({"s3.get_object", "s3.head_object"})


def dollars(meter: Meter, prices: Prices = PRICES) -> dict[str, float]:
    """By service: what these requests cost."""
    table = meter.write_units * prices.write_units + meter.read_units * prices.read_units
    bucket = sum(count * _s3_price(name, prices) for name, count in meter.requests.items() if name.startswith("s3."))
    queue = meter.of("sqs") * prices.sqs_requests
    return {"dynamodb": table / _MILLION, "sqs": queue / _MILLION, "s3": bucket / _MILLION}


def _s3_price(operation: str, prices: Prices) -> float:
    if operation in _S3_FREE:
        return 0.0
    return prices.s3_reads if operation in _S3_READS else prices.s3_writes
