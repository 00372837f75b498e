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


def dollars(meter: Meter, prices: Prices = PRICES) -> dict[str, float]:
    """By service: what these requests cost. S3 has a client of its own that is not counted here."""
    table = meter.write_units * prices.write_units + meter.read_units * prices.read_units
    return {"dynamodb": table / _MILLION, "sqs": meter.of("sqs") * prices.sqs_requests / _MILLION}
