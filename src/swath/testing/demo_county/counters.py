"""What the demo county counts: requests by kind and status, what is open, and how fast requests come in.

The server tells it when a request's head was read and when its last byte was written; tests read it to check, at the
site, what Swath promises about concurrency and rates. Memory is bounded, whatever the number of requests.
"""

import time
from collections import Counter, deque
from typing import NamedTuple

KEPT_TIMESTAMPS = 1_000_000
KEPT_SECONDS = 3_600
KEPT_PARCELS = 500_000

DROPPED = "dropped"
"""Status of a request whose connection the site closed without an answer (the switch `drop_rate`)."""
ABORTED = "aborted"
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
