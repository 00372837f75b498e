"""Runs the command line of Swath and counts its Python calls by module, and the steps of SQLite's machine.

`python traced.py FILE ARGUMENT…`; the counts are written to FILE when the command ends.
"""

from __future__ import annotations

import json
import runpy
import sqlite3
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

_calls: Counter[str] = Counter()
_steps = 0


def _profile(frame: FrameType, event: str, argument: object) -> None:
    del argument
    if event == "call":
        _calls[frame.f_code.co_filename] += 1


def _step() -> int:
    global _steps  # noqa: PLW0603 a counter of the whole process
    _steps += 1
    return 0


class _Counted(sqlite3.Connection):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.set_progress_handler(_step, 1)


def _connect(*arguments: Any, **options: Any) -> Any:
    return _real_connect(*arguments, **{"factory": _Counted, **options})


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    _real_connect = sqlite3.connect
    sqlite3.connect = _connect
    threading.setprofile(_profile)
    sys.setprofile(_profile)
    try:
        runpy.run_module("swath.entrypoints.cli.main", run_name="__main__", alter_sys=True)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        file.write_text(json.dumps({"calls": _calls, "steps": _steps}), encoding="utf-8")
