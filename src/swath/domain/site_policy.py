"""SitePolicy: how a site is visited, and the hours in which it may be visited, in the site's time zone. Pure.

A site is a domain, or several that share one back end. Instants are Unix seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, field_validator, model_validator

from swath.domain.execution_policy import PolicyModel
from swath.domain.failure import FailureKind
from swath.domain.proxy_products import ProxyType, ladder_error
from swath.domain.safe_regex import pattern_error

__all__ = [
    "AllowedHours",
    "Breaker",
    "HeaderSet",
    "Rate",
    "RobotsMode",
    "Signature",
    "SignatureKind",
    "SitePolicy",
    "Window",
]

WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK: Final = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)")
_DAY_MINUTES: Final = 24 * 60
_DAYS_AHEAD: Final = 9  # by then a weekly timetable has come round, clock changes and all
_HOUR: Final = 3_600
_SOME_MONDAY: Final = 1_748_822_400  # in June, when no clocks are changed


def _minutes(text: Any) -> int:
    """YAML reads 22:00 without quotes as the number 1320, which is the same in minutes. 22 is nobody's time of day."""
    if isinstance(text, int) and not isinstance(text, bool) and (text == 0 or 60 <= text <= _DAY_MINUTES):
        return text
    found = _CLOCK.fullmatch(text) if isinstance(text, str) else None
    minutes = int(found[1]) * 60 + int(found[2]) if found else -1
    if not 0 <= minutes <= _DAY_MINUTES:
        raise ValueError(f"{text!r} is no time of day; write it like 22:30")
    return minutes


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


Minutes = Annotated[int, PlainValidator(_minutes), PlainSerializer(_clock, return_type=str)]


class Window(BaseModel):
    """From one time of day until another, on the days on which it opens; `until` may lie on the next day."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    opens: Minutes = Field(alias="from")
    closes: Minutes = Field(alias="until")
    days: tuple[str, ...] = WEEKDAYS

    @field_validator("days", mode="before")
    @classmethod
    def _are_weekdays(cls, days: Any) -> Any:
        names = [days] if isinstance(days, str) else days
        if not isinstance(names, (list, tuple)) or not names or any(name not in WEEKDAYS for name in names):
            raise ValueError(f"are of {', '.join(WEEKDAYS)}; not {days!r}")
        return tuple(day for day in WEEKDAYS if day in names)

    @model_validator(mode="after")
    def _has_a_length(self) -> Window:
        if self.opens == self.closes:
            raise ValueError("opens when it closes; for a whole day write from 00:00 until 24:00")
        return self

    def holds(self, weekday: int, minutes: float) -> bool:
        """Whether the time of day lies in it, on that day or as the rest of the day before."""
        if self.opens < self.closes:
            return WEEKDAYS[weekday] in self.days and self.opens <= minutes < self.closes
        if WEEKDAYS[weekday] in self.days and minutes >= self.opens:
            return True
        return WEEKDAYS[weekday - 1] in self.days and minutes < self.closes


class AllowedHours(BaseModel):
    """A weekly timetable. Open exactly when the wall clock there says so."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time_zone: str = "UTC"
    windows: tuple[Window, ...] = Field(min_length=1)
    drain_seconds: float = Field(default=60, ge=0, le=_DAY_MINUTES * 60)
    """No item starts so shortly before the window closes."""

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            raise ValueError(f"{name!r} is no time zone; write it like America/Phoenix") from None
        return name

    @model_validator(mode="after")
    def _lets_items_start(self) -> AllowedHours:
        if self.next_start(_SOME_MONDAY) == _SOME_MONDAY + _DAYS_AHEAD * 24 * _HOUR:
            raise ValueError(f"are never open for drain_seconds ({self.drain_seconds:g}), so that nothing could start")
        return self

    def is_open(self, at: float) -> bool:
        """Whether requests may be sent."""
        local = datetime.fromtimestamp(at, ZoneInfo(self.time_zone))
        minutes = local.hour * 60 + local.minute + (local.second + local.microsecond / 1e6) / 60
        return any(window.holds(local.weekday(), minutes) for window in self.windows)

    def may_start(self, at: float) -> bool:
        """Whether an item may start: open, and for long enough."""
        if not self.is_open(at):
            return False
        closing = self.closes_at(at)
        return closing is None or closing - at >= self.drain_seconds

    def closes_at(self, at: float) -> float | None:
        """The end of the present window; None when it never closes. To be asked while open."""
        return next((edge for edge in self._edges(at) if not self.is_open(edge)), None)

    def next_start(self, at: float) -> float:
        """The next instant at which an item may start, `at` itself if that is one."""
        if self.may_start(at):
            return at
        return next((edge for edge in self._edges(at) if self.may_start(edge)), at + _DAYS_AHEAD * 24 * _HOUR)

    def finish_of(self, at: float, seconds: float) -> float:
        """When work of so many seconds is done, if it rests while the site is closed; a year ahead at most."""
        limit = at + 366 * 24 * _HOUR
        while at < limit:
            if not self.is_open(at):
                at = next((edge for edge in self._edges(at) if self.is_open(edge)), limit)
                continue
            closing = self.closes_at(at)
            if closing is None or closing - at >= seconds:
                return at + seconds
            seconds -= closing - at
            at = closing
        return at

    def _edges(self, at: float) -> Iterator[float]:
        """Instants after `at`, in order, at which it may open or close."""
        zone = ZoneInfo(self.time_zone)
        today = datetime.fromtimestamp(at, zone).date()
        later: set[float] = set()  # near a clock change some edges of a day lie beyond the first of the next
        for ahead in range(-1, _DAYS_AHEAD):
            day = today + timedelta(days=ahead)
            found = later | self._edges_of(day, zone)
            next_day = min(_instants(day + timedelta(days=1), 0, zone))
            later = {edge for edge in found if edge >= next_day}
            yield from (edge for edge in sorted(found - later) if edge > at)

    def _edges_of(self, day: date, zone: ZoneInfo) -> set[float]:
        times = {0, *(minutes for window in self.windows for minutes in (window.opens, window.closes))}
        edges = set().union(*(_instants(day, minutes, zone) for minutes in times if minutes < _DAY_MINUTES))
        start = min(edges)
        # Where the clock jumps over an edge, the jump itself is one.
        return edges | _jumps(start, start + 25 * _HOUR, zone)


def _instants(day: date, minutes: int, zone: ZoneInfo) -> set[float]:
    """When the clock shows that time; twice at the end of summer, and before and after a jump that leaves it out."""
    wall = datetime(day.year, day.month, day.day, *divmod(minutes, 60), tzinfo=zone)
    return {wall.replace(fold=fold).timestamp() for fold in (0, 1)}


def _jumps(start: float, end: float, zone: ZoneInfo) -> set[float]:
    """The instants between the two at which the clock is changed; there is one at most."""

    def offset(at: float) -> timedelta | None:
        return datetime.fromtimestamp(at, UTC).astimezone(zone).utcoffset()

    low, high = int(start), int(end)
    if offset(low) == offset(high):
        return set()
    while high - low > 1:
        middle = (low + high) // 2
        if offset(middle) == offset(low):
            low = middle
        else:
            high = middle
    return {float(high)}


class Rate(PolicyModel):
    """Requests in a length of time, evenly spread, over all workers and jobs."""

    tokens: float = Field(default=10, gt=0, le=1_000_000, allow_inf_nan=False)
    per_seconds: float = Field(default=1, gt=0, le=86_400, allow_inf_nan=False)

    @property
    def per_second(self) -> float:
        """The same as a number."""
        return self.tokens / self.per_seconds


class RobotsMode(StrEnum):
    """What robots.txt means to us."""

    OBEY = "obey"
    WARN = "warn"  # fetch all the same, and say so
    IGNORE = "ignore"  # it is not even fetched


class HeaderSet(StrEnum):
    """Whose headers a request begins with."""

    PLAIN = "plain"  # our own, which say who we are
    CHROME = "chrome"
    FIREFOX = "firefox"


class Breaker(PolicyModel):
    """When a site is left alone because it fails (D3)."""

    window: int = Field(default=10, ge=1, le=1_000)
    failures: int = Field(default=5, ge=1, le=1_000)
    reopen_seconds: float = Field(default=120, gt=0, le=86_400)

    @model_validator(mode="after")
    def _can_be_reached(self) -> Breaker:
        if self.failures > self.window:
            raise ValueError(f"failures ({self.failures}) can never be reached in a window of {self.window}")
        return self


class SignatureKind(StrEnum):
    """What a page that fits a signature is."""

    BLOCKED = FailureKind.BLOCKED.value
    CAPTCHA = FailureKind.CAPTCHA.value
    MAINTENANCE = FailureKind.MAINTENANCE.value
    SESSION_EXPIRED = FailureKind.SESSION_EXPIRED.value
    RATE_LIMITED = FailureKind.RATE_LIMITED.value
    SERVER_ERROR = FailureKind.SERVER_ERROR.value
    ACCESS_POLICY = FailureKind.ACCESS_POLICY.value
    LAYOUT_CHANGED = FailureKind.LAYOUT_CHANGED.value
    NOT_FOUND = "not_found"  # the site's word that there is no such record: a success
    PAGE = "page"  # a good page, whatever the general signatures say


class Signature(PolicyModel):
    """How a page is recognised. All that is given must fit; patterns are regular expressions, in any case."""

    kind: SignatureKind
    status: tuple[int, ...] = ()
    header: str | None = None
    """`name: pattern`."""
    title: str | None = None
    body: str | None = None
    css: str | None = None
    """A selector of which something must be on the page."""
    url: str | None = None
    """Of the address after redirects."""
    largest_bytes: int | None = Field(default=None, ge=1)
    """Only pages up to this size: a wall is small, a page that talks about walls is not."""

    @field_validator("title", "body", "url", "header")
    @classmethod
    def _can_be_searched_for(cls, pattern: str | None) -> str | None:
        objection = None if pattern is None else pattern_error(pattern)
        if objection is not None:
            raise ValueError(objection)
        return pattern

    @model_validator(mode="after")
    def _says_something(self) -> Signature:
        if not (self.status or self.header or self.title or self.body or self.css or self.url):
            raise ValueError("fits every page; give status, header, title, body, css or url")
        return self


class SitePolicy(PolicyModel):
    """How one site is visited; every part has a default."""

    domains: tuple[str, ...] = ()
    """Names that share this policy and its bucket, subdomains included; `host:port` for just that port."""
    rate: Rate = Rate()
    concurrency: int = Field(default=8, ge=1, le=10_000)
    """Requests that may be open at once, over all workers and jobs."""
    slow_down_seconds: float = Field(default=60, gt=0, le=86_400)
    """How long a 429 or 503 keeps the rate halved, and how long each quarter takes to come back."""
    allowed_hours: AllowedHours | None = None
    robots: RobotsMode = RobotsMode.OBEY
    breaker: Breaker = Breaker()
    signatures: tuple[Signature, ...] = ()
    proxy_ladder: tuple[ProxyType, ...] = ()
    remember_tier: bool = False
    """Jobs begin on the step of the ladder that the last job on this site needed."""
    action_delay_ms: tuple[int, int] = (500, 2_000)
    """Pause between two actions in a browser, from … to …."""
    header_set: HeaderSet = HeaderSet.PLAIN
    """Whose headers requests begin with."""
    user_agent: str | None = Field(default=None, min_length=1, max_length=1_000, pattern=r"^[ -~]+$")
    """Takes the place of the one in the header set."""
    impersonate: str | None = None
    """A browser whose TLS and HTTP/2 ways are imitated, such as chrome_143; off by default."""

    @field_validator("domains")
    @classmethod
    def _are_hosts(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        for domain in domains:
            if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?|\[[0-9a-f:.]+\](:\d{1,5})?", domain):
                raise ValueError(f"{domain!r} is no host name; write it in small letters, without scheme or path")
        return domains

    @field_validator("proxy_ladder")
    @classmethod
    def _can_be_climbed(cls, steps: tuple[ProxyType, ...]) -> tuple[ProxyType, ...]:
        objection = ladder_error(steps)
        if objection is not None:
            raise ValueError(objection)
        return steps

    @field_validator("action_delay_ms")
    @classmethod
    def _is_a_range(cls, delay: tuple[int, int]) -> tuple[int, int]:
        if not 0 <= delay[0] <= delay[1] <= 600_000:
            raise ValueError(f"must go from a smaller to a larger number of milliseconds, not {list(delay)}")
        return delay

    def as_yaml(self) -> dict[str, Any]:
        """Only what was set, as plain values."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)
