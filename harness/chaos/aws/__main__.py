"""`python -m harness.chaos.aws` (`make chaos-aws`): a storm on the local AWS servers, then the count.

`--outages` takes store, queue and bucket away for a minute each instead. Exits 0 when nothing was lost, counted twice,
torn, left about or wrong and the site's policy was kept, and 1 otherwise; `--help` names the options.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import asdict, fields, replace
from pathlib import Path

from harness import interruption
from harness.chaos.aws import report
from harness.chaos.aws.disturbed_run import DisturbancePlan
from harness.chaos.aws.outages import run_outages
from harness.chaos.aws.run import Setting, run_storm
from harness.chaos.aws.sizes import FULL, SHORT, Size
from harness.chaos.findings import Findings, add_options, conclude
from harness.fakes.aws import running_servers

__all__ = ["main"]

DISTURBANCES = tuple(kind.name for kind in fields(DisturbancePlan))


def main(arguments: list[str] | None = None) -> int:
    """Runs what the options ask for, prints a table, and answers with the exit code."""
    options = _parser().parse_args(arguments)
    interruption.install()  # so that processes are ended on the way out
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="swath-chaos-aws-", dir=options.folder))
    findings, began = Findings(), time.monotonic()
    figures = report.Figures(command=_command_line(options, seed), seed=seed)
    print(f"chaos on AWS in {folder}, seed {seed}", flush=True)
    with running_servers() as servers:
        if options.outages:
            figures.outages = run_outages(folder, servers.endpoints, _size(options).outage_seconds, findings)
        else:
            setting = Setting(folder, servers.endpoints, options.broken, seed)
            run_storm(setting, _size(options), findings, figures)
    figures.finish(findings, time.monotonic() - began)
    return conclude(
        options,
        folder,
        findings,
        table=report.table(figures),
        figures=asdict(figures),
        write_page=lambda page: report.write_page(page, figures),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.chaos.aws", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="the small form, which is part of the tests")
    parser.add_argument("--outages", action="store_true", help="take store, queue and bucket away instead of workers")
    parser.add_argument("--items", type=int, metavar="N", help=f"items of all jobs ({FULL.items:,})")
    parser.add_argument("--kills", type=int, metavar="N", help=f"kill -9 at random times ({FULL.kills})")
    parser.add_argument("--freezes", type=int, metavar="N", help=f"SIGSTOP beyond the lease ({FULL.freezes})")
    parser.add_argument("--processes", type=int, metavar="N", help=f"worker processes ({FULL.processes})")
    parser.add_argument("--seed", type=int, metavar="S", help="of whom is struck when; printed when chosen by chance")
    kinds = [*DISTURBANCES, "none"]
    parser.add_argument("--disturb", nargs="+", choices=kinds, help="only these disturbances beside kills and freezes")
    parser.add_argument("--broken", choices=["fence"], help="switch a guard off: the run must then find problems")
    add_options(parser)
    return parser


def _size(options: argparse.Namespace) -> Size:
    names = ("items", "kills", "freezes", "processes")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    size = replace(SHORT if options.short else FULL, **given)
    wanted = options.disturb or DISTURBANCES
    disturbed = replace(size.disturbed, **{kind: 0 for kind in DISTURBANCES if kind not in wanted})
    return replace(size, disturbed=disturbed)


def _command_line(options: argparse.Namespace, seed: int) -> str:
    """What makes the same run again; where its files and figures go does not matter."""
    names = ("short", "outages", "items", "kills", "freezes", "processes", "broken", "disturb")
    given = [(name, getattr(options, name)) for name in names]
    told = ((name, " ".join(value) if isinstance(value, list) else value) for name, value in given if value)
    words = [f"--{name}" if value is True else f"--{name} {value}" for name, value in told]
    return f'make chaos-aws ARGS="{" ".join([*words, f"--seed {seed}"])}"'


if __name__ == "__main__":
    sys.exit(main())
