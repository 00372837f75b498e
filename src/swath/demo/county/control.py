"""What a test sets and reads while the site runs: faults to inject, and counters of requests.

The random decisions are seeded, so a run can be repeated.
"""

import random
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, NamedTuple

Fault = Literal["maintenance", "drop", "blocked", "rate_limited", "server_error"]

MAX_LATENCY_MS = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSettings:
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
            _check_number(name, getattr(self, name), highest=MAX_LATENCY_MS)
        if type(self.robots) is not str or not 200 <= self.robots_status <= 599:
            raise ValueError("robots must be text, and robots_status one from 200 to 599")
        for name in ("retry_after_seconds", "robots_status", "seed"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 0:
                raise ValueError(f"{name} must be a whole number, not below 0")
        for name in ("maintenance", "count_parcels"):
            if type(getattr(self, name)) is not bool:
                raise ValueError(f"{name} must be true or false")

    def changed(self, changes: Mapping[str, object]) -> "FaultSettings":
        """Return the switches with some of them set anew; a ValueError names what is unknown or out of range."""
        unknown = sorted(set(changes) - {field.name for field in fields(self)})
        if unknown:
            raise ValueError(f"unknown switches: {', '.join(unknown)}")
        return replace(self, **changes)  # type: ignore[arg-type]  # __post_init__ checks every value

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class FaultDice:
    """Decides, by the switches and a seeded generator, how long a request waits and what goes wrong with it."""

    def __init__(self, switches: FaultSettings) -> None:
        self._switches = switches
        self._random = random.Random(switches.seed)  # noqa: S311 faults must be repeatable, not secret

    @property
    def switches(self) -> FaultSettings:
        return self._switches

    def turn(self, switches: FaultSettings) -> None:
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


KEPT_TIMESTAMPS = 1_000_000
KEPT_SECONDS = 3_600
KEPT_PARCELS = 500_000

CONNECTION_DROPPED = "dropped"
"""Status of a request whose connection the site closed without an answer (the switch `drop_rate`)."""
CLIENT_ABORTED = "aborted"
"""Status of a request whose connection died before its answer was written."""


class OpenRequest(NamedTuple):
    """A request from the moment its head was read until `Counters.finished` is told of its end."""

    kind: str
    session: str | None
    epoch: int


class Counters:
    """The counts since the start or the last reset.

    An *item* is whoever shares a session cookie, since each item of Swath has a cookie jar of its own; a request
    without the cookie is an item of itself.
    """

    def __init__(self) -> None:
        self._epoch = 0
        self._sessions: dict[str, int] = {}
        self._strangers = 0
        self.open_requests = 0
        self._start_counting()

    def _start_counting(self) -> None:
        self.requests = 0
        self.peak_open_requests = self.open_requests
        self.peak_open_items = self.open_items
        self.largest_window = 0
        self.timestamps: deque[float] = deque(maxlen=KEPT_TIMESTAMPS)
        self.by_parcel: dict[str, dict[str, int]] = {}
        self.parcels_left_out = 0
        self._parcels_kept = 0
        self._window: deque[float] = deque()
        self._seconds: deque[tuple[int, int]] = deque(maxlen=KEPT_SECONDS)
        self._second, self._in_second = 0, 0
        self._outcomes: Counter[tuple[str, str]] = Counter()

    def reset(self) -> None:
        """Count from zero; what is open stays open, but its end is counted no more."""
        self._epoch += 1
        self._start_counting()

    @property
    def open_items(self) -> int:
        return len(self._sessions) + self._strangers

    def opened(self, kind: str, session: str | None) -> OpenRequest:
        self.requests += 1
        self.open_requests += 1
        if session is None:
            self._strangers += 1
        else:
            self._sessions[session] = self._sessions.get(session, 0) + 1
        self.peak_open_requests = max(self.peak_open_requests, self.open_requests)
        self.peak_open_items = max(self.peak_open_items, self.open_items)
        self._stamp(time.monotonic())
        return OpenRequest(kind, session, self._epoch)

    def finished(self, request: OpenRequest, status: str) -> None:
        self.open_requests -= 1
        if request.session is None:
            self._strangers -= 1
        elif self._sessions[request.session] == 1:
            del self._sessions[request.session]
        else:
            self._sessions[request.session] -= 1
        if request.epoch == self._epoch:
            self._outcomes[request.kind, status] += 1

    def count_parcel(self, kind: str, parcel_id: str) -> None:
        """Count a request by its parcel; parcels beyond the bound are only counted together."""
        parcels = self.by_parcel.setdefault(kind, {})
        if parcel_id in parcels:
            parcels[parcel_id] += 1
        elif self._parcels_kept < KEPT_PARCELS:
            self._parcels_kept += 1
            parcels[parcel_id] = 1
        else:
            self.parcels_left_out += 1

    def _stamp(self, now: float) -> None:
        self.timestamps.append(now)
        window = self._window
        window.append(now)
        while window[0] <= now - 1:
            window.popleft()
        self.largest_window = max(self.largest_window, len(window))
        if int(now) != self._second:
            self._close_second()
            self._second = int(now)
        self._in_second += 1

    def _close_second(self) -> None:
        if self._in_second:
            self._seconds.append((self._second, self._in_second))
        self._in_second = 0

    def by_second(self) -> list[tuple[int, int]]:
        """Return (whole monotonic second, requests in it), for seconds that had any, oldest first."""
        return [*self._seconds, (self._second, self._in_second)] if self._in_second else list(self._seconds)

    def by_status(self) -> dict[str, int]:
        counted: Counter[str] = Counter()
        for (_, status), number in self._outcomes.items():
            counted[status] += number
        return dict(counted)

    def by_kind(self) -> dict[str, dict[str, int]]:
        counted: dict[str, dict[str, int]] = {}
        for (kind, status), number in self._outcomes.items():
            counted.setdefault(kind, {})[status] = number
        return counted

    def as_dict(self) -> dict[str, object]:
        return {
            "requests": self.requests,
            "by_kind": self.by_kind(),
            "by_status": self.by_status(),
            "open_requests": self.open_requests,
            "peak_open_requests": self.peak_open_requests,
            "open_items": self.open_items,
            "peak_open_items": self.peak_open_items,
            "largest_window": self.largest_window,
            "by_second": self.by_second(),
            "parcels_counted": self._parcels_kept,
            "parcels_left_out": self.parcels_left_out,
            "cpu_seconds": time.process_time(),
        }
