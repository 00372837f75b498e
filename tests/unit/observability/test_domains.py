"""O2: requests per domain, the busiest by name, in bounded memory, by counts that never go down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.observability import counters
from swath.observability.counters import MOST_NAMED, OTHER, DomainRequestCounts

pytestmark = pytest.mark.req("O2")


def counted(requests: dict[str, int]) -> DomainRequestCounts:
    found = DomainRequestCounts()
    for domain, count in requests.items():
        for _ in range(count):
            found.add(domain)
    return found


def test_the_200_busiest_domains_have_their_names_and_the_rest_is_together() -> None:
    requests = {f"{n}.example": n for n in range(1, 301)}
    assert MOST_NAMED == 200
    assert counted(requests).shown() == {
        **{f"{n}.example": n for n in range(101, 301)},
        OTHER: sum(range(1, 101)),
    }


def test_few_domains_need_no_other() -> None:
    assert counted({"a.example": 2, "b.example": 1}).shown() == {"a.example": 2, "b.example": 1}


def test_a_host_that_is_called_other_is_counted_with_the_others() -> None:
    assert counted({"other": 3, "a.example": 1}).shown() == {"a.example": 1, OTHER: 3}


@given(st.lists(st.one_of(st.none(), st.integers(0, 11)), max_size=200))
def test_the_count_of_the_others_never_goes_down_and_no_request_is_lost(steps: list[int | None]) -> None:
    """None stands for a look. Small bounds, so that domains are forgotten and come back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "MOST_NAMED", 2)
        patch.setattr(counters, "MOST_KEPT", 6)
        found, requests = DomainRequestCounts(), 0
        other = 0
        for step in steps:
            if step is not None:
                found.add(f"{step}.example")
                requests += 1
                continue
            shown = found.shown()
            assert len(shown.keys() - {OTHER}) <= 2
            assert sum(shown.values()) >= requests
            assert shown.get(OTHER, 0) >= other
            other = shown.get(OTHER, 0)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "MOST_KEPT", 1_000)
    found = counted({"busy.example": 50})
    for n in range(20_000):
        found.add(f"{n}.example")
        found.add("busy.example")
    assert len(found._counts) <= 1_000
    assert len(found._in_other) <= 1_000
    shown = found.shown()
    assert (len(shown), shown["busy.example"]) == (201, 20_050)
    assert sum(shown.values()) == 40_050
