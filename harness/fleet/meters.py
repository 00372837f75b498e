"""What processes have asked of AWS, added up, and what that costs. Written by metered.py, shown by report.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import msgspec

from swath.backends.aws.client.metering import Meter, dollars

__all__ = ["MeteredRequests", "read_meters"]

MILLION: Final = 1_000_000


class MeteredRequests(msgspec.Struct, frozen=True, kw_only=True):
    """By so many items: requests by service and operation, and DynamoDB's units. `again` and `declined` are among
    the requests."""

    items: int
    requests: dict[str, int]
    again: int
    declined: int
    read_units: float
    write_units: float
    dollars: dict[str, float]

    def each(self, service: str) -> float:
        """Requests to a service for each item."""
        return sum(count for name, count in self.requests.items() if name.startswith(service + ".")) / self.items

    def million(self, *services: str) -> float:
        """Dollars for a million such items."""
        return sum(self.dollars[service] for service in services) * MILLION / self.items


def read_meters(folder: Path, items: int) -> MeteredRequests:
    """Everything that processes have left there."""
    files = list(folder.glob("*.json"))
    if not files:
        raise SystemExit(f"no process has left its meters in {folder}")
    total = Meter()
    for noted in [noted for file in files for noted in json.loads(file.read_bytes())]:
        total.requests.update(noted["requests"])
        total.again.update(noted["again"])
        total.declined.update(noted["declined"])
        total.read_units += noted["read_units"]
        total.write_units += noted["write_units"]
    return MeteredRequests(
        items=items,
        requests=dict(sorted(total.requests.items())),
        again=total.again.total(),
        declined=total.declined.total(),
        read_units=total.read_units,
        write_units=total.write_units,
        dollars=dollars(total),
    )
