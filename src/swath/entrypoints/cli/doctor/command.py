"""`swath doctor`: runs every check, says what to do about each that is not well, and exits 1 if one failed."""

from __future__ import annotations

import click
import msgspec

from swath.backends.clock import SystemClock
from swath.domain.errors import BadInput
from swath.entrypoints.cli.doctor.checks import CHECKS
from swath.entrypoints.cli.doctor.finding import Check, Finding, Level, Subject, fail
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.options import json_option
from swath.entrypoints.cli.output import print_json
from swath.settings import Settings, read

__all__ = ["doctor"]


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Check settings, disk, store, clock, sites, proxies and what the API needs, and say what to do about each.

    Exits 1 if one failed.
    """
    subject = _subject()
    findings = {name: _answer(check, subject) for name, check in CHECKS.items()}
    failed = any(finding.level is Level.FAIL for finding in findings.values())
    if as_json:
        checks = [{"check": name, **msgspec.to_builtins(finding)} for name, finding in findings.items()]
        print_json({"ok": not failed, "checks": checks})
    else:
        for name, finding in findings.items():
            click.echo(f"{finding.level:5} {name + ':':14} {finding.message}")
            if finding.advice:
                click.echo(f"{'':20} → {finding.advice}")
    return ExitCode.INTERNAL if failed else ExitCode.COMPLETE


def _subject() -> Subject:
    try:
        reading = read()
    except BadInput as error:
        return Subject(settings=Settings(), reading=None, trouble=str(error), clock=SystemClock())
    return Subject(settings=reading.settings, reading=reading, trouble="", clock=SystemClock())


def _answer(check: Check, subject: Subject) -> Finding:
    """A check that breaks is a finding too, and does not keep the others from being made."""
    try:
        return check(subject)
    except Exception as error:  # noqa: BLE001 whatever is wrong with this machine
        return fail(f"cannot be checked: {type(error).__name__}: {error}", "this may be a bug of ours; tell us")
