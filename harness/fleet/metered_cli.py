"""Runs the real command line, and writes down at its end what it asked of AWS: `python -m harness.fleet.metered_cli DIR
…`.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.client.metering import Meter
from swath.backends.aws.s3.objects import Objects

__all__ = ["main"]


def main(arguments: Sequence[str]) -> None:
    """Becomes `swath` with these arguments."""
    folder, *words = arguments
    meters: list[Meter] = []
    for kind in (AwsClients, Objects):
        _gather(kind, meters)
    atexit.register(_note, Path(folder) / f"{os.getpid()}.json", meters)
    sys.argv = ["swath", *words]
    runpy.run_module("swath.entrypoints.cli.main", run_name="__main__", alter_sys=True)


def _gather(kind: Any, meters: list[Meter]) -> None:
    """The meter of each one that is made from now on."""
    real = kind.__init__

    def made(one: Any, *args: Any, **more: Any) -> None:
        real(one, *args, **more)
        meters.append(one.meter)

    kind.__init__ = made


def _note(file: Path, meters: list[Meter]) -> None:
    file.write_bytes(msgspec.json.encode(meters))


if __name__ == "__main__":
    main(sys.argv[1:])
