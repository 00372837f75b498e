"""What the rigs find out about several jobs at once: one that stands still because of another, or is gone."""

from collections.abc import Callable, Sequence

import pytest

from harness.chaos import side_jobs
from harness.chaos.findings import Findings, Kind
from harness.chaos.side_jobs import ITEMS, SideJobs, SideJobState
from harness.chaos.step_scripts import RunningScripts, Script

HALF, DONE = SideJobState(ITEMS // 2, False, 1), SideJobState(ITEMS, True, 1)


class Jobs:
    """A place whose jobs are as a test says, whether their results are damaged or not."""

    def __init__(self, look: Callable[[str, bool, bool], SideJobState | None]) -> None:
        self._look = look
        self.is_damaged = self.was_repaired = False

    def add(self, job_id: str) -> None: ...

    def create(self, job_id: str, retention_days: float | None) -> Script:
        yield

    def retry(self, job_id: str, generation: int, seqs: Sequence[int] = ()) -> Script:
        yield

    def missing(self, job_id: str) -> list[int]:
        return []

    def look(self, job_id: str) -> SideJobState | None:
        return self._look(job_id.partition("-")[0], self.is_damaged, self.was_repaired)

    def damage(self, job_id: str) -> tuple[str, Callable[[bool], None]]:
        self.is_damaged = True

        def repair(ended: bool) -> None:
            self.is_damaged, self.was_repaired = False, True

        return "a file in place of the folder", repair


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_jobs, "PATIENCE_SECONDS", 0.05)


def found_in(look: Callable[[str, bool, bool], SideJobState | None]) -> list[tuple[Kind, str]]:
    findings, scripts = Findings(), RunningScripts()
    scripts.begin(SideJobs(Jobs(look), findings).damage_one())
    while not scripts.over:
        scripts.turn()
    return [(problem.kind, problem.where) for problem in findings.problems]


@pytest.mark.req("Z10")
def test_jobs_that_go_on_beside_a_damaged_one_are_fine() -> None:
    def look(job: str, damaged: bool, repaired: bool) -> SideJobState:
        return DONE if job == "bystander" or repaired else HALF

    assert found_in(look) == []


@pytest.mark.req("Z10")
def test_a_job_that_waits_for_the_repair_of_another_is_noticed() -> None:
    def look(job: str, damaged: bool, repaired: bool) -> SideJobState:
        return DONE if repaired else HALF

    assert found_in(look) == [(Kind.STOPPED, "bystander-1")]


@pytest.mark.req("Z10")
def test_a_job_that_does_not_end_after_its_repair_is_noticed() -> None:
    def look(job: str, damaged: bool, repaired: bool) -> SideJobState:
        return DONE if job == "bystander" else HALF

    assert found_in(look) == [(Kind.STOPPED, "victim-0")]


def test_a_job_that_never_began_has_shown_nothing() -> None:
    assert found_in(lambda job, damaged, repaired: None) == [(Kind.WRONG, "victim-0")]
