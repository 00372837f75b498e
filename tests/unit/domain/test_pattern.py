"""Patterns of an operator's that a site could make run for ever are refused when they are loaded."""

import time

import pytest
from pydantic import ValidationError

from swath.domain.safe_regex import SearchTimeout, fullmatch, pattern_error, search, shared_search_time
from swath.domain.site_policy import Signature
from tests.support.bounds import RUNAWAY_CPU_SECONDS

pytestmark = pytest.mark.req("D1", "Z6")


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"(a*)*b",
        r"(?:a|b+)+$",
        r"(\w+\s?)*$",
        r"((ab)*c?)*",
        r"(a{1,100}){30}",
        r"x(?=(a+)+b)",
        r"(?i:(x+x+)+y)",
        r"(a+?)*?b",
        r"(a|a)+$",
        r"<p>(.|\s)*</p>",
        r"(?P<all>.|x)*y",
        r"(\d{1,3},?)+\.\d\d",
        r"(?:\d{2,4}-?)*$",
        r"a*a*a*a*a*a*b",
        r".*.*.*.*.*=x",
    ],
)
def test_a_pattern_that_can_run_away_is_refused_in_one_line(pattern: str) -> None:
    with pytest.raises(ValidationError, match="can take for ever") as raised:
        Signature.model_validate({"kind": "blocked", "body": pattern})
    assert "\n" not in raised.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    "pattern",
    [
        r"access.*denied",
        r"(\d{1,3}\.){3}\d{1,3}",
        r"(\w{32}-)+",
        r"(?:<br>\s*+)+",
        r"(?>a+b)+",
        r"(a++)+$",
        r"(abc|abd|x)+",
        r"<p>(.|\n)*</p>",
        r"\s+please\s+wait\s+",
        r"(?:no|zero) records? (?:found|match)",
        r"\$?(\d{1,3}(?:,\d{3})*)(\.\d\d)?",
        r"(\d{1,3},)+",
        r"(\w{1,9}\s)+",
        r"(?:\d+ ?){1,3}",
        r".*foo.*bar.*baz.*",
        r'{"id":[0-9]+}',
        r"[[(]a",
    ],
)
def test_ordinary_patterns_are_taken(pattern: str) -> None:
    assert pattern_error(pattern) is None
    began = time.process_time()
    search(pattern, "a" * 200 + "!")
    assert time.process_time() - began < RUNAWAY_CPU_SECONDS


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(" * 5_000 + ")" * 5_000, "[z-a]"])
def test_what_is_no_pattern_is_told(pattern: str) -> None:
    assert (pattern_error(pattern) or "").startswith("is no regular expression")


@pytest.mark.parametrize(
    "pattern", ["[[:alpha:]]+", "(?:acres){e<=1}", "a{s}", "(?:a{5000}){5000}", "(((a{900}){900}))"]
)
def test_what_the_library_reads_otherwise_or_writes_out_is_refused(pattern: str) -> None:
    assert pattern_error(pattern) is not None


ASTRAY = r"(?s)(x.*){8}y?z"  # the check lets it pass: eight times is not many
TEXT = "x" * 9_000


def test_a_search_that_is_led_astray_ends_after_a_moment() -> None:
    assert pattern_error(ASTRAY) is None
    for find in (search, fullmatch):
        began = time.process_time()
        with pytest.raises(SearchTimeout, match="takes longer than"):
            find(ASTRAY, TEXT)
        assert time.process_time() - began < RUNAWAY_CPU_SECONDS


def test_slow_searches_share_the_time_of_one_and_quick_ones_are_not_counted() -> None:
    with shared_search_time(0.05):
        for _ in range(3_000):
            assert search("[0-9]+", "parcel 12")
        with pytest.raises(SearchTimeout):
            search(ASTRAY, TEXT)
        began = time.process_time()
        for _ in range(2_000):
            with pytest.raises(SearchTimeout):
                search("[0-9]+", "parcel 12")
        assert time.process_time() - began < RUNAWAY_CPU_SECONDS
    assert search("[0-9]+", "parcel 12")


def test_case_matters_unless_told() -> None:
    assert search("denied", "Access DENIED") is None
    assert search("denied", "Access DENIED", ignore_case=True)
