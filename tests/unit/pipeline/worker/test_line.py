"""Which lease of a full worker starts the next item."""

from __future__ import annotations

import pytest

from swath.pipeline.worker.admission import StartOrder


class Place:
    """Room for so many items."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.started: list[str] = []


class Items:
    def __init__(self, name: str, place: Place, ready: int) -> None:
        self.name, self.place, self.ready = name, place, ready

    def start_next(self) -> bool:
        if not self.ready or not self.place.room:
            return False
        self.ready -= 1
        self.place.room -= 1
        self.place.started.append(self.name)
        return True


@pytest.mark.req("S3", "W1")
def test_leases_take_turns_where_there_is_not_room_for_all() -> None:
    place, line = Place(0), StartOrder()
    for name in "ab":
        line.join(Items(name, place, ready=10))
    for _ in range(6):
        place.room = 1
        line.fill()
    assert place.started in (list("ababab"), list("bababa"))


@pytest.mark.req("S3")
def test_a_lease_that_has_just_come_is_first() -> None:
    place, line = Place(0), StartOrder()
    old = Items("old", place, ready=10)
    line.join(old)
    line.join(Items("new", place, ready=1))
    place.room = 3
    line.fill()
    assert place.started == ["new", "old", "old"]
    assert (place.room, old.ready) == (0, 8)


@pytest.mark.req("W1")
def test_room_is_filled_as_far_as_anybody_has_items_and_not_by_a_lease_that_is_over() -> None:
    place, line = Place(10), StartOrder()
    gone, here = Items("gone", place, ready=9), Items("here", place, ready=3)
    line.join(gone)
    line.join(here)
    line.leave(gone)
    line.leave(gone)
    line.fill()
    assert (place.started, place.room) == (["here"] * 3, 7)
