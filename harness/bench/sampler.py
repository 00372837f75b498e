"""`python -m harness.bench.sampler FILE …`: runs the command line, and samples it once per millisecond of CPU."""

from __future__ import annotations

import json
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

__all__ = ["ELSEWHERE"]

EACH_SECONDS: Final = 0.001
ELSEWHERE: Final = "elsewhere"

_seen: Counter[str] = Counter()


def _look(number: int, frame: FrameType | None) -> None:
    del number
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("swath.entrypoints") or module == __name__:
            break  # the loop itself runs below these
        if module.startswith(("swath.", "swath_scraper_")):
            _seen[module] += 1
            return
        frame = frame.f_back
    _seen[ELSEWHERE] += 1


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    signal.signal(signal.SIGPROF, _look)
    signal.siginterrupt(signal.SIGPROF, False)
    signal.setitimer(signal.ITIMER_PROF, EACH_SECONDS, EACH_SECONDS)
    try:
        runpy.run_module("swath.entrypoints.cli.main", run_name="__main__")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        file.write_text(json.dumps(_seen), encoding="utf-8")
