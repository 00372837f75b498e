"""Commands that cost little to start: each is a process of its own, forked from one that has imported Swath already.

Half a second of imports for every command would be a third of the whole run. What is shown of starting, of signals and
of kills takes real ones.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Final

__all__ = ["SERVER", "run_warm"]

SERVER: Final = multiprocessing.get_context("forkserver")
_ASKING: Final = threading.Lock()  # a start asks after all others too, and of two who ask at once one hears nothing
# What fetches and what speaks to AWS start no thread when they are imported, so that forking is safe.
SERVER.set_forkserver_preload(
    [
        "swath.backends.aws.backend",
        "swath.bootstrap.workers",
        "swath.entrypoints.cli.aws",
        "swath.entrypoints.cli.doctor.command",
        "swath.entrypoints.cli.jobs.commands",
        "swath.entrypoints.cli.jobs.local_client",
        "swath.entrypoints.cli.recording",
        "swath.entrypoints.cli.run",
        "tests.support.warm",
        "tests.support.warm_aws",
    ]
)


def run_warm(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: str | None, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, as `subprocess.run` would."""
    with tempfile.TemporaryDirectory() as place:
        files = Path(place)
        files.joinpath("0").write_text(stdin or "", encoding="utf-8")
        process = SERVER.Process(target=_command, args=(list(arguments), folder, dict(environment), files))
        with _ASKING:
            process.start()
        wait([process.sentinel], seconds)
        with _ASKING:
            code = process.exitcode
        if code is None:
            process.kill()
            wait([process.sentinel])
            with _ASKING:
                process.join()
            raise subprocess.TimeoutExpired(list(arguments), seconds)
        out, err = (files.joinpath(name).read_text(encoding="utf-8") for name in ("1", "2"))
        process.close()
    return subprocess.CompletedProcess(list(arguments), code, out, err)


def _command(arguments: list[str], folder: Path, environment: dict[str, str], files: Path) -> None:
    for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)):
        os.dup2(os.open(files / str(number), mode, 0o600), number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 for as long as the process lives
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    sys.argv = ["swath", *arguments]
    from swath.entrypoints.cli.main import main

    main()
