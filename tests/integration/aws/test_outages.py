"""Z9 on AWS: store, queue and bucket go away for some seconds while workers run. `make chaos-aws ARGS="--outages"` does
the same for a minute each."""

from pathlib import Path

import pytest

from harness.chaos.aws.outages import Outage, OutageTarget, run_outage
from harness.chaos.findings import Findings
from harness.fakes.aws import Endpoints

SECONDS = 6.0


@pytest.mark.long
@pytest.mark.req("Z9", "Z1", "Q3")
@pytest.mark.timeout(240)  # about 40 s on two idle cores
@pytest.mark.parametrize("what", list(OutageTarget), ids=lambda what: what.name.lower())
def test_what_goes_away_is_waited_for(aws: Endpoints, tmp_path: Path, what: OutageTarget) -> None:
    findings = Findings()
    outage = run_outage(tmp_path / "outage", aws, what, SECONDS, findings)
    outage.judge(findings)
    assert findings.clean, [str(problem) for problem in findings.problems]


@pytest.mark.req("Z9")
def test_an_outage_that_nobody_speaks_of_or_that_nobody_gets_over_is_a_problem() -> None:
    findings = Findings()
    Outage(
        what=OutageTarget.STORE_REFUSES,
        seconds=SECONDS,
        log_seconds=6.0,
        status_seconds=None,
        went_on_seconds=16.0,
        forgotten_seconds=1.0,
    ).judge(findings)
    assert findings.found.total() == 3
