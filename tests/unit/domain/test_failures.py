"""The table of failure kinds equals appendix 3 of the requirements, written out here once more."""

import pytest

from swath.domain.failure import RULES, Failure, FailureKind, KindRule

# kind: retry, culprit, job circuit, site circuit, proxy
APPENDIX_3 = """
timeout          yes             site   yes  yes  try another
connect          yes             site   yes  yes  -
dns_temporary    yes             us     no   no   -
dns_unknown      no              input  yes  no   -
tls              no              site   yes  yes  -
proxy            yes, own budget proxy  no   no   mark unhealthy
access_policy    no              proxy  yes  no   no climb
rate_limited     yes, after it   site   no   no   -
blocked          yes             site   yes  yes  climb
captcha          yes             site   yes  yes  climb
server_error     yes             site   yes  yes  -
maintenance      yes, late       site   yes  yes  -
session_expired  yes, new session site  yes  no   -
not_found_page   no              site   yes  no   -
http_error       no              site   yes  no   -
layout_changed   no              site   yes  no   -
navigation       yes             site   yes  yes  -
action_failed    by rule         site   yes  no   -
invalid_input    no              input  no   no   -
invalid_output   no              us     yes  no   -
robots_denied    no              site   no   no   -
egress_denied    no              input  yes  no   -
too_large        no              site   yes  no   -
browser_crash    yes, own budget us     no   no   -
credential       no              input  yes  no   -
poison           no              us     yes  no   -
internal         no              us     yes  no   -
"""

ROWS = {line.split()[0]: line for line in APPENDIX_3.strip().splitlines()}


def as_words(rule: KindRule) -> tuple[bool, str, bool, bool, str]:
    proxy = rule.proxy.value.replace("_", " ")
    return rule.retryable, rule.culprit.value, rule.job_circuit, rule.site_circuit, proxy


def row_of(line: str) -> tuple[bool, str, bool, bool, str]:
    _, rest = line.split(maxsplit=1)
    culprit = next(word for word in ("site", "proxy", "input", "us") if f" {word} " in rest)
    retry, after = rest.split(f" {culprit} ", maxsplit=1)
    job, site, proxy = after.split(maxsplit=2)
    return not retry.startswith("no"), culprit, job == "yes", site == "yes", "none" if proxy == "-" else proxy


@pytest.mark.req("H2")
def test_every_kind_has_its_row_and_no_row_is_left_over() -> None:
    assert set(ROWS) == {kind.value for kind in FailureKind} == {kind.value for kind in RULES}


@pytest.mark.req("H2")
@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_kind_means_what_the_appendix_says(kind: FailureKind) -> None:
    assert as_words(RULES[kind]) == row_of(ROWS[kind.value])


@pytest.mark.req("H2", "S6")
def test_infrastructure_faults_have_a_budget_of_their_own() -> None:
    # S6 names "proxy died, our DNS, worker crash"; a crashed worker is counted by the store and has no kind.
    own = {kind for kind, rule in RULES.items() if rule.own_budget}
    assert own == {FailureKind.PROXY, FailureKind.BROWSER_CRASH, FailureKind.DNS_TEMPORARY}


@pytest.mark.req("H2")
def test_maintenance_is_retried_late() -> None:
    assert {kind for kind, rule in RULES.items() if rule.min_delay_seconds} == {FailureKind.MAINTENANCE}
    assert RULES[FailureKind.MAINTENANCE].min_delay_seconds >= 60


def test_a_failure_knows_its_row() -> None:
    assert Failure(FailureKind.BLOCKED, "no").rule is RULES[FailureKind.BLOCKED]


def test_a_message_is_one_line_of_bounded_length() -> None:
    failure = Failure.of(FailureKind.INTERNAL, "a\n  b\t" + "c" * 2_000)
    assert failure.message.startswith("a b c")
    assert len(failure.message) == 500
    assert failure.message.endswith("…")
    assert Failure.of(FailureKind.INTERNAL, "x" * 500).message == "x" * 500
