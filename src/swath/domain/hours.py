"""Allowed hours of a site (S8): when it may be visited, by the clock on its wall, across midnight and clock changes.

Pure; instants are Unix seconds. Read from site policies; asked before an item starts, and by the ETA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, field_validator, model_validator

__all__ = ["AllowedHours", "Window"]

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
