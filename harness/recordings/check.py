"""What must hold after a run: every item came to what the county knows of it, and every failure is one of the county's.

Before: the jobs have ended. The county has written down what it spoiled; each spoilt answer must have failed the step
that depends on it, and nothing else may have failed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Final

from harness.chaos.findings import Findings, Kind
from harness.recordings.jobs import MAX_RETRIES, ItemResult
from harness.recordings.site import InjectedFault
from swath.demo.county import exists, parcel
from swath.recordings.player.step_times import step_label
from swath.recordings.schema.recording import Recording, walk
from swath.recordings.schema.steps import AnyStep, Goto, WaitFor

__all__ = ["check_outcomes", "check_steps", "expected_of"]

_STEP: Final = re.compile(r"step (?P<place>[0-9a-z.]+) \((?P<what>.*?)\): ", re.DOTALL)
_FOUND, _YEARS = "#parcelNumber", "#end"
_UNREAD: Final = ("history", "layout")
_OTHER: Final = "nothing of the county's"
_WAITED_FOR: Final = frozenset({"app", "app-parcel", "app-years", _OTHER})


def expected_of(parcel_id: str) -> dict[str, str] | None:
    """What the county knows of a parcel, as text; None when there is no such parcel. All but its earlier years, which
    the rules do not read."""
    if not exists(parcel_id):
        return None
    truth = parcel(parcel_id)
    return {one.name: str(getattr(truth, one.name)) for one in fields(truth) if one.name not in _UNREAD}


def check_outcomes(
    parcels: Sequence[str], came: Mapping[str, ItemResult], findings: Findings, *, fails: bool
) -> Counter[str]:
    """Every item has ended as it must. Where nothing is spoiled (`fails`) none may have failed. How many ended how."""
    for parcel_id in parcels:
        item = came.get(parcel_id)
        if item is None:
            findings.add(Kind.LOST, parcel_id, "the store does not know it")
        elif item.state == "failed":
            tried_enough = len(item.failures) == MAX_RETRIES + 1
            findings.expect(fails, Kind.WRONG, parcel_id, "it has failed though nothing was spoiled")
            findings.expect(tried_enough, Kind.WRONG, parcel_id, f"it was tried {len(item.failures)} times")
        else:
            _check_record(parcel_id, item, findings)
    for parcel_id in came.keys() - set(parcels):
        findings.add(Kind.WRONG, parcel_id, "nobody has asked for it")
    return Counter(item.state for item in came.values())


def _check_record(parcel_id: str, item: ItemResult, findings: Findings) -> None:
    """Numbers are compared as text: the one is exact, and the other is JSON."""
    truth = expected_of(parcel_id)
    foretold = "not_found" if truth is None else "success"
    findings.expect(item.state == foretold, Kind.WRONG, parcel_id, f"it is {item.state} and must be {foretold}")
    if truth is not None:
        read = {name: str(value) for name, value in (item.record or {}).items()}
        wrong = sorted(name for name in truth.keys() | read.keys() if read.get(name) != truth.get(name))
        findings.expect(not wrong, Kind.WRONG, parcel_id, f"its record is wrong: {wrong}")


def check_steps(
    recording: Recording, came: Mapping[str, ItemResult], spoilt: InjectedFault, findings: Findings
) -> dict[str, int]:
    """Every failed attempt names the step that failed, and the county has spoiled what that step waits for. By step,
    how many attempts failed there."""
    steps = {placed.place: placed.step for placed in walk(recording)}
    failed: Counter[tuple[str, str]] = Counter()  # by what the step waits for, and the parcel
    by_step: Counter[str] = Counter()
    for parcel_id, item in came.items():
        for kind, message in item.failures:
            named = _STEP.match(message)
            step = None if named is None else steps.get(named["place"])
            if named is None or step is None or step_label(step) != named["what"]:
                findings.add(Kind.WRONG, parcel_id, f"a failure names no step: {message[:100]}")
                continue
            waits_for, kinds = _depends_on(step)
            by_step[f"{named['place']} ({named['what']})"] += 1
            failed[waits_for, parcel_id if waits_for != "app" else ""] += 1
            findings.expect(kind in kinds, Kind.WRONG, parcel_id, f"step {named['place']} failed by {kind}")
    _compare(failed, spoilt, findings)
    return dict(sorted(by_step.items()))


def _depends_on(step: AnyStep) -> tuple[str, tuple[str, ...]]:
    """Which page of the county a step waits for, and how it fails without it."""
    if isinstance(step, Goto):
        return "app", ("server_error",)
    if isinstance(step, WaitFor) and step.on == ((_FOUND,),):
        return "app-parcel", ("timeout", "action_failed")
    if isinstance(step, WaitFor) and step.on == ((_YEARS,),):
        return "app-years", ("timeout", "action_failed")
    return _OTHER, ()


def _compare(failed: Counter[tuple[str, str]], spoilt: InjectedFault, findings: Findings) -> None:
    """One spoilt answer is one failed attempt. But when the dialog's own requests are spoiled, it is the search after
    it that finds nothing: whose that was the county cannot tell."""
    strangers = sum(count for (kind, of), count in spoilt.items() if kind in ("app-agree", "app-parcel") and not of)
    for key in sorted(failed.keys() | spoilt.keys()):
        kind, parcel_id = key
        if kind not in _WAITED_FOR or (kind == "app-parcel" and not parcel_id):
            continue
        more = failed[key] - spoilt[key]
        if kind == "app-parcel" and 0 < more <= strangers:
            strangers -= more
            continue
        what = f"{spoilt[key]} answers of {kind} were spoiled, and {failed[key]} attempts failed by it"
        findings.expect(not more, Kind.WRONG, parcel_id or kind, what)
