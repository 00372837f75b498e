"""What an execution policy is when nothing is said, and what it refuses."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from swath.domain.execution_policy import ExecutionPolicy, Keep

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"throttling": {"max_concurrent_workers": 0}}, "greater than or equal to 1"),
    ({"throttling": {"max_concurrent_workers": 2.5}}, "integer"),
    ({"throttling": {"requests_per_second": 0}}, "greater than 0"),
    ({"throttling": {"requests_per_second": math.inf}}, "finite"),
    ({"retries": {"max_retries": -1}}, "greater than or equal to 0"),
    ({"retries": {"backoff": "quadratic"}}, "'exponential', 'linear' or 'fixed'"),
    ({"retries": {"backoff_factor": 0.5}}, "greater than or equal to 1"),
    ({"retries": {"base_delay_seconds": math.nan}}, "finite"),
    ({"retries": {"kinds": {"bloked": {"max_retries": 1}}}}, "'blocked'"),
    ({"retries": {"kinds": {"blocked": {"retries": 1}}}}, "Extra inputs"),
    ({"timeouts": {"item_seconds": 0}}, "greater than 0"),
    ({"timeouts": {"request_seconds": 100_000}}, "less than or equal to 86400"),
    ({"circuit_breaker": {"min_requests": 0}}, "greater than or equal to 1"),
    ({"circuit_breaker": {"failure_threshold_percentage": 0}}, "greater than 0"),
    ({"circuit_breaker": {"failure_threshold_percentage": math.nan}}, "greater than 0"),
    ({"circuit_breaker": {"on_open": "explode"}}, "'fail' or 'pause'"),
    ({"proxy": {"type": "bicycle"}}, "'datacenter'"),
    ({"keep": "nothing"}, "'pages', 'data' or 'both'"),
    ({"thottling": {}}, "Extra inputs"),
]


@pytest.mark.req("S1", "S4", "S6", "H1", "K1")
def test_the_defaults_are_those_of_the_requirements() -> None:
    policy = ExecutionPolicy()
    assert policy.retries.model_dump(mode="json", exclude={"kinds", "max_infrastructure_retries"}) == {
        "max_retries": 3,
        "backoff": "exponential",
        "backoff_factor": 2,
        "base_delay_seconds": 1,
        "max_delay_seconds": 60,
    }
    assert policy.timeouts.model_dump() == {
        "connect_seconds": 10,
        "request_seconds": 30,
        "navigation_seconds": 30,
        "item_seconds": 60,
    }
    assert policy.circuit_breaker.model_dump(mode="json") == {
        "min_requests": 20,
        "failure_threshold_percentage": 0.5,
        "consecutive_failures": 20,
        "max_not_found_percentage": 0.9,
        "on_open": "fail",
    }
    assert (policy.proxy.type, policy.keep) == ("none", "both")
    assert policy.throttling.requests_per_second is None


@pytest.mark.req("J1")
def test_the_example_of_the_appendix_is_understood() -> None:
    policy = ExecutionPolicy.model_validate(
        {
            "throttling": {"max_concurrent_workers": 3},
            "circuit_breaker": {"min_requests": 5, "failure_threshold_percentage": 0.8},
            "retries": {"max_retries": 1},
        }
    )
    assert policy.throttling.max_concurrent_workers == 3
    assert (policy.circuit_breaker.min_requests, policy.retries.max_retries) == (5, 1)


@pytest.mark.req("Z5")
@pytest.mark.parametrize(("document", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_a_wrong_value_is_refused_with_the_reason(document: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ExecutionPolicy.model_validate(document)


@pytest.mark.req("S4")
@pytest.mark.parametrize("name", ["failure_threshold_percentage", "max_not_found_percentage"])
def test_a_percentage_above_one_is_refused_with_the_fraction_to_write(name: str) -> None:
    with pytest.raises(ValidationError, match=r"for 80 % write 0\.8"):
        ExecutionPolicy.model_validate({"circuit_breaker": {name: 80}})
    ExecutionPolicy.model_validate({"circuit_breaker": {name: 1}})


def test_only_what_differs_from_the_defaults_is_stored_and_it_comes_back() -> None:
    assert ExecutionPolicy().as_json() == {}
    document = {
        "throttling": {"max_concurrent_workers": 3},
        "retries": {"kinds": {"blocked": {"max_retries": 7}}},
        "proxy": {"ladder": ["none", "datacenter"]},
        "keep": "data",
    }
    policy = ExecutionPolicy.model_validate(document)
    assert policy.as_json() == document
    assert ExecutionPolicy.model_validate(policy.as_json()) == policy


def test_another_concurrency_leaves_the_rest_and_is_checked() -> None:
    policy = ExecutionPolicy.model_validate({"retries": {"kinds": {"tls": {"max_retries": 1}}}, "keep": "pages"})
    changed = policy.with_concurrency(5)
    assert changed.throttling.max_concurrent_workers == 5
    assert (changed.retries, changed.keep) == (policy.retries, policy.keep)
    with pytest.raises(ValidationError):
        policy.with_concurrency(0)


def test_a_policy_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        ExecutionPolicy().keep = Keep.DATA  # type: ignore[misc]  # that it is refused is what is shown


@pytest.mark.req("K1")
@pytest.mark.parametrize(
    ("keep", "pages", "data"), [("pages", True, False), ("data", False, True), ("both", True, True)]
)
def test_what_is_kept(keep: str, pages: bool, data: bool) -> None:
    assert (Keep(keep).pages, Keep(keep).data) == (pages, data)
