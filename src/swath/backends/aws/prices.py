"""What AWS asks for what Swath uses of it: list prices of us-east-1 in US dollars, as published in autumn 2025.

meter.py counts the requests; here they become money. Free tiers and agreed discounts are left out.
"""

from __future__ import annotations

from typing import Final

import msgspec

from swath.backends.aws.calls.meter import Meter

__all__ = ["PRICES", "Prices", "dollars"]

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
