"""Allowed hours (S8), against the wall clock read minute by minute, above all where it is changed (property 24)."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from swath.domain.site_policy import WEEKDAYS, AllowedHours, Window

MINUTE, HOUR, DAY = 60, 3_600, 86_400

# The hour, in UTC, of a clock change or of an ordinary day.
CHANGES = {
    "America/New_York": ["2025-03-09 07:00", "2025-11-02 06:00"],
    "Europe/Berlin": ["2025-03-30 01:00", "2025-10-26 01:00"],
    "Atlantic/Azores": ["2025-03-30 01:00", "2025-10-26 01:00"],  # at midnight, and back to it
    "America/Havana": ["2025-03-09 05:00", "2025-11-02 05:00"],  # likewise
    "America/Santiago": ["2025-09-07 04:00", "2025-04-06 03:00"],  # from midnight to one; the evening hour twice
    "Asia/Beirut": ["2025-03-29 22:00", "2025-10-25 21:00"],
    "America/Scoresbysund": ["2025-03-30 01:00", "2025-10-26 01:00"],  # 23:00 is midnight of the next day
    "Australia/Lord_Howe": ["2025-10-04 15:30", "2025-04-05 15:00"],  # by half an hour
    "America/Phoenix": ["2025-03-09 07:00"],  # never
    "Asia/Kathmandu": ["2025-06-15 12:00"],  # a quarter of an hour beside the others
}
moments = st.sampled_from([(zone, change) for zone, changes in CHANGES.items() for change in changes])
times_of_day = st.one_of(
    st.sampled_from([0, 30, 60, 90, 119, 120, 150, 180, 1_380, 1_395, 1_410, 1_439, 1_440]), st.integers(0, 1_440)
).map(lambda minutes: f"{minutes // 60}:{minutes % 60:02}")
windows = st.builds(
    lambda opens, closes, days: {"from": opens, "until": closes, "days": days},
    times_of_day,
    times_of_day,
    st.one_of(st.just(list(WEEKDAYS)), st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=4)),
).filter(lambda window: window["from"] != window["until"])
NEVER = ("24:00", "0:00")  # opens when it closes; a timetable of nothing else is refused
timetables = st.lists(windows, min_size=1, max_size=3).filter(
    lambda timetable: any((window["from"], window["until"]) != NEVER for window in timetable)
)


def instant(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@lru_cache(100_000)
def wall(zone: str, at: int) -> datetime:
    return datetime.fromtimestamp(at, UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


class Oracle:
    """The same promises, told by looking at every minute."""

    def __init__(self, zone: str, timetable: list[dict[str, Any]]) -> None:
        self.zone = zone
        self.spans = [(*map(self._length, (window["from"], window["until"])), window["days"]) for window in timetable]

    @staticmethod
    def _length(text: str) -> timedelta:
        hours, minutes = text.split(":")
        return timedelta(hours=int(hours), minutes=int(minutes))

    def is_open(self, minute: int) -> bool:
        shown = wall(self.zone, minute)
        for days_ago in (0, 1, 2):
            midnight = datetime.combine(shown, time()) - timedelta(days=days_ago)
            for opens, closes, days in self.spans:
                end = midnight + closes + timedelta(days=closes < opens)
                if WEEKDAYS[midnight.weekday()] in days and midnight + opens <= shown < end:
                    return True
        return False

    def first(self, minute: int, *, is_open: bool) -> int | None:
        """The first minute from that one on at which it is so."""
        return next((m for m in range(minute, minute + 8 * DAY, MINUTE) if self.is_open(m) is is_open), None)

    def next_start(self, at: int, drain_seconds: int) -> int | None:
        minute = at - at % MINUTE
        while (opening := self.first(minute, is_open=True)) is not None:
            start = max(at, opening)
            closing = self.first(opening, is_open=False)
            if closing is None or closing - start >= drain_seconds:
                return start
            minute = closing
            if minute > at + 8 * DAY:
                return None
        return None

    def finish_of(self, at: int, seconds: int) -> int:
        minute = at - at % MINUTE
        while True:
            end = minute + MINUTE
            if self.is_open(minute):
                room = end - max(at, minute)
                if room >= seconds:
                    return max(at, minute) + seconds
                seconds -= room
            minute = end


def hours_of(zone: str, timetable: list[dict[str, Any]], drain_seconds: int = 0) -> AllowedHours:
    return AllowedHours.model_validate({"time_zone": zone, "windows": timetable, "drain_seconds": drain_seconds})


@pytest.mark.req("S8", "property 24")
@settings(max_examples=100, deadline=None)
@given(moment=moments, timetable=timetables, offset=st.integers(-2_000, 2_000), second=st.integers(0, 59))
def test_it_is_open_exactly_when_the_clock_on_the_wall_says_so(
    moment: tuple[str, str], timetable: list[dict[str, Any]], offset: int, second: int
) -> None:
    zone, change = moment
    hours, oracle = hours_of(zone, timetable), Oracle(zone, timetable)
    middle = instant(change) + offset * MINUTE
    for minute in range(middle - 3 * HOUR, middle + 3 * HOUR, 7 * MINUTE):
        assert hours.is_open(minute + second) == oracle.is_open(minute)


@pytest.mark.req("S8", "property 24")
@settings(max_examples=100, deadline=None)
@given(
    moment=moments,
    timetable=timetables,
    at=st.integers(-2 * DAY, 1 * DAY),
    drain_seconds=st.sampled_from([0, 1, 60, 600, 7_200]),
)
@example(  # the hour after midnight comes twice, and the window has closed before the first of them
    moment=("Atlantic/Azores", "2025-10-26 01:00"),
    timetable=[{"from": "10:00", "until": "24:00", "days": ["sat"]}],
    at=-12 * HOUR,
    drain_seconds=60,
)
def test_an_item_starts_exactly_when_it_is_open_for_long_enough(
    moment: tuple[str, str], timetable: list[dict[str, Any]], at: int, drain_seconds: int
) -> None:
    zone, change = moment
    hours, oracle = (
        AllowedHours.model_construct(
            time_zone=zone,
            windows=tuple(Window.model_validate(window) for window in timetable),
            drain_seconds=drain_seconds,
        ),
        Oracle(zone, timetable),
    )
    at += instant(change)
    start = oracle.next_start(at, drain_seconds)
    assert hours.may_start(at) == (start == at)
    if start is not None:
        assert hours.next_start(at) == start
    if hours.is_open(at):
        assert hours.closes_at(at) == oracle.first(at - at % MINUTE, is_open=False)


@pytest.mark.req("S8", "property 24")
@settings(max_examples=60, deadline=None)
@given(moment=moments, timetable=timetables, at=st.integers(-2 * DAY, 1 * DAY), seconds=st.sampled_from([1, 90, 5_000]))
def test_work_rests_while_the_site_is_closed(
    moment: tuple[str, str], timetable: list[dict[str, Any]], at: int, seconds: int
) -> None:
    zone, change = moment
    at += instant(change)
    oracle = Oracle(zone, timetable)
    if oracle.first(at - at % MINUTE, is_open=True) is not None:
        assert hours_of(zone, timetable).finish_of(at, seconds) == oracle.finish_of(at, seconds)


@pytest.mark.req("S8")
def test_a_night_window_belongs_to_the_day_on_which_it_opens() -> None:
    hours = hours_of("America/Phoenix", [{"from": "22:00", "until": "06:00", "days": ["fri"]}])
    assert not hours.is_open(instant("2025-06-13 12:00"))  # Friday 05:00
    assert hours.is_open(instant("2025-06-14 05:00"))  # Friday 22:00
    assert hours.is_open(instant("2025-06-14 12:59"))  # Saturday 05:59
    assert not hours.is_open(instant("2025-06-14 13:00"))
    assert hours.closes_at(instant("2025-06-14 05:00")) == instant("2025-06-14 13:00")
    assert hours.next_start(instant("2025-06-14 13:00")) == instant("2025-06-21 05:00")


@pytest.mark.req("S8")
def test_windows_that_meet_are_one_and_all_day_never_closes() -> None:
    two = hours_of("UTC", [{"from": "20:00", "until": "24:00"}, {"from": "00:00", "until": "04:00"}], 3_600)
    at = instant("2025-06-14 23:30")
    assert two.may_start(at)
    assert two.closes_at(at) == instant("2025-06-15 04:00")
    always = hours_of("UTC", [{"from": "00:00", "until": "24:00"}])
    assert always.closes_at(at) is None
    assert always.finish_of(at, 40 * DAY) == at + 40 * DAY


@pytest.mark.req("S8")
def test_an_eta_over_closed_nights_counts_only_open_hours() -> None:
    hours = hours_of("America/Phoenix", [{"from": "20:00", "until": "06:00"}])
    noon = instant("2025-06-14 19:00")
    assert hours.finish_of(noon, 25 * HOUR) == instant("2025-06-17 08:00")  # 10 + 10 + 5 hours: one in the third night


@pytest.mark.req("S8", "D1")
def test_hours_are_written_as_people_write_them_and_read_back_the_same() -> None:
    text = "{time_zone: Europe/Berlin, windows: [{from: 22:30, until: 06:00, days: sun}, {from: 0, until: 1:00}]}"
    hours = AllowedHours.model_validate(yaml.safe_load(text))
    assert [(window.opens, window.closes, window.days) for window in hours.windows] == [
        (1_350, 360, ("sun",)),
        (0, 60, WEEKDAYS),
    ]
    written = yaml.safe_dump(hours.model_dump(mode="json", by_alias=True))
    assert "'22:30'" in written
    assert AllowedHours.model_validate(yaml.safe_load(written)) == hours


@pytest.mark.req("S8", "Z5")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"from": "25:00", "until": "06:00"}, "'25:00' is no time of day"),
        ({"from": "24:30", "until": "06:00"}, "no time of day"),
        ({"from": 22, "until": "06:00"}, "22 is no time of day"),
        ({"from": True, "until": "06:00"}, "no time of day"),
        ({"from": "noon", "until": "06:00"}, "no time of day"),
        ({"from": "06:00", "until": "6:00"}, "whole day"),
        ({"from": "06:00", "until": "07:00", "days": ["Monday"]}, "mon, tue"),
        ({"from": "06:00", "until": "07:00", "days": []}, "mon, tue"),
        ({"from": "06:00"}, "until"),
    ],
)
def test_what_is_no_window_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        hours_of("UTC", [given])


@pytest.mark.req("S8", "Z5")
@pytest.mark.parametrize("zone", ["", "Mars/Base", "../etc/passwd", "America", "/etc/localtime", "Europe/Berlin\x00"])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValidationError, match="is no time zone"):
        hours_of(zone, [{"from": "06:00", "until": "07:00"}])


@pytest.mark.req("S8", "Z5")
def test_hours_in_which_nothing_could_ever_start_are_refused() -> None:
    hours_of("UTC", [{"from": "06:00", "until": "06:10"}], 600)
    with pytest.raises(ValidationError, match="never open for drain_seconds"):
        hours_of("UTC", [{"from": "06:00", "until": "06:10"}], 601)
