"""Patterns of an operator's that a site could make run for ever are refused when they are loaded."""

import re
import time

import pytest
from pydantic import ValidationError

from swath.domain.pattern import objection_to
from swath.domain.site import Signature

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
    ],
)
def test_ordinary_patterns_are_taken(pattern: str) -> None:
    assert objection_to(pattern) is None
    began = time.process_time()
    re.search(pattern, "a" * 200 + "!")
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(" * 5_000 + ")" * 5_000])
def test_what_is_no_pattern_is_told(pattern: str) -> None:
    assert (objection_to(pattern) or "").startswith("is no regular expression")
