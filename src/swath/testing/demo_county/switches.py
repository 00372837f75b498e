"""What the demo county can be told to do wrong, and the dice that decide for each request.

Switches are set when the site starts and changed while it runs (`/_site/switches`). The dice are seeded and rolled
anew for every request, so that a request that failed can succeed when it is tried again.
"""

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal

Fault = Literal["maintenance", "drop", "blocked", "rate_limited", "server_error"]

LONGEST_LATENCY_MS = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """How the site behaves. Rates are fractions of the requests (0 to 1), each drawn on its own."""

    latency_ms: float = 0.0
    latency_jitter_ms: float = 0.0
    """Up to this much is added to `latency_ms`, evenly spread."""
    failure_rate: float = 0.0
    rate_429: float = 0.0
    retry_after_seconds: int = 1
    block_rate: float = 0.0
    drop_rate: float = 0.0
    maintenance: bool = False
    count_parcels: bool = False
    robots: str = "User-agent: *\nAllow: /\n"
    robots_status: int = 200
    """`/robots.txt` obeys these two alone: what is broken behind it does not concern a plain file."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("failure_rate", "rate_429", "block_rate", "drop_rate"):
            _check_number(name, getattr(self, name), highest=1)
        for name in ("latency_ms", "latency_jitter_ms"):
            _check_number(name, getattr(self, name), highest=LONGEST_LATENCY_MS)
        if type(self.robots) is not str or not 200 <= self.robots_status <= 599:
            raise ValueError("robots must be text, and robots_status one from 200 to 599")
        for name in ("retry_after_seconds", "robots_status", "seed"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 0:
                raise ValueError(f"{name} must be a whole number, not below 0")
        for name in ("maintenance", "count_parcels"):
            if type(getattr(self, name)) is not bool:
                raise ValueError(f"{name} must be true or false")

    def changed(self, changes: Mapping[str, object]) -> "Switches":
        """Return the switches with some of them set anew; a ValueError names what is unknown or out of range."""
        unknown = sorted(set(changes) - {field.name for field in fields(self)})
        if unknown:
            raise ValueError(f"unknown switches: {', '.join(unknown)}")
        return replace(self, **changes)  # type: ignore[arg-type]  # __post_init__ checks every value

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class Dice:
    """Decides, by the switches and a seeded generator, how long a request waits and what goes wrong with it."""

    def __init__(self, switches: Switches) -> None:
        self._switches = switches
        self._random = random.Random(switches.seed)  # noqa: S311 faults must be repeatable, not secret

    @property
    def switches(self) -> Switches:
        return self._switches

    def turn(self, switches: Switches) -> None:
        """Put other switches in force; the generator starts again only when the seed is another one."""
        if switches.seed != self._switches.seed:
            self._random.seed(switches.seed)
        self._switches = switches

    def delay_seconds(self) -> float:
        switches = self._switches
        if not switches.latency_jitter_ms:
            return switches.latency_ms / 1_000
        return (switches.latency_ms + self._random.random() * switches.latency_jitter_ms) / 1_000

    def fault(self) -> Fault | None:
        switches = self._switches
        if switches.maintenance:
            return "maintenance"
        rates: tuple[tuple[Fault, float], ...] = (
            ("drop", switches.drop_rate),
            ("blocked", switches.block_rate),
            ("rate_limited", switches.rate_429),
            ("server_error", switches.failure_rate),
        )
        for fault, rate in rates:
            if rate and self._random.random() < rate:
                return fault
        return None


def _check_number(name: str, value: object, *, highest: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
        raise ValueError(f"{name} must be a number from 0 to {highest}")
