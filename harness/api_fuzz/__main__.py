"""`python -m harness.api_fuzz` (`make fuzz-api`): schemathesis on the OpenAPI document of a real `swath serve`.

Three turns: without keys, with one, and without one where keys are needed. Exits 1 when any finds something.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import interruption
from harness.served_controller import MODULE, Served, environment_of, serving

__all__ = ["main"]

OFFLINE: Final = "harness.api_fuzz.offline"
HOOKS: Final = "harness.api_fuzz.hooks"
EXAMPLES: Final = 200
REQUEST_SECONDS: Final = 30
_LOGGED: Final = ("a request failed", "Traceback")
# What no answer may violate; the rest depends on whether keys are needed. A job that is deleted is still there for a
# while, and says so (202), so it is not held against us that it can be seen.
_ALWAYS: Final = (
    *("no_surprise", "status_code_conformance", "content_type_conformance", "response_headers_conformance"),
    *("response_schema_conformance", "unsupported_method", "allow_header_conformance", "negative_data_rejection"),
    "ensure_resource_availability",
)
_STREAMS: Final = "/events$"  # they do not end
_CONFIGURED: Final = """
[generation]
with-security-parameters = false
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 409, 413, 416, 422, 429, "5xx"]
"""


@dataclass(frozen=True)
class FuzzRun:
    """One run of schemathesis. `needed`: the store has a key by then; `given`: and it is sent."""

    name: str
    needed: bool
    given: bool
    checks: tuple[str, ...] = _ALWAYS


FUZZ_RUNS: Final = (
    FuzzRun("without keys", needed=False, given=False),
    FuzzRun("with a key", needed=True, given=True, checks=(*_ALWAYS, "ignored_auth")),
    FuzzRun("without the key that is needed", needed=True, given=False),
)


def main(arguments: list[str] | None = None) -> int:
    """Takes all turns, and answers with the exit code."""
    options = _parser().parse_args(arguments)
    interruption.install()  # so that processes are ended on the way out
    folder = Path(tempfile.mkdtemp(prefix="swath-fuzz-"))
    print(f"fuzz in {folder}", flush=True)
    found = [problem for turn in FUZZ_RUNS for problem in _run_all(turn, folder, options)]
    print("\n".join(found) or "nothing was found", flush=True)
    if not found:
        shutil.rmtree(folder)
    return 1 if found else 0


def _run_all(turn: FuzzRun, folder: Path, options: argparse.Namespace) -> list[str]:
    """What was found, in a line each. Every turn has a store of its own."""
    data, report = folder / turn.name.replace(" ", "-"), folder / f"{turn.name.replace(' ', '-')}.txt"
    data.mkdir()
    key = _make_key(data) if turn.needed else ""
    with serving(data, module=OFFLINE, SWATH_LOG_FORMAT="text", SWATH_DEMO_URL=_free_url()) as served:
        _order(served, key)
        code = _attack(served, report, turn, key if turn.given else "", options)
        served.stop()
    generated = re.search(r"\d+ generated.*", report.read_text(encoding="utf-8", errors="replace"))
    print(f"  {turn.name}: {generated[0] if generated else 'no requests at all'}", flush=True)
    lines = served.log.read_text(encoding="utf-8", errors="replace").splitlines()
    logged = [line[:500] for line in lines if any(word in line for word in _LOGGED)]
    return [*([f"{turn.name}: see {report}"] if code else []), *logged]


def _free_url() -> str:
    """Where the echo of the controller can be: nobody has that port at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.api_fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--examples", type=int, default=EXAMPLES, metavar="N", help="for each operation (200)")
    parser.add_argument("--seed", type=int, metavar="N", help="the same examples again")
    return parser


def _make_key(data: Path) -> str:
    command = [sys.executable, "-m", MODULE, "keys", "create", "fuzz", "--scope", "admin"]
    made = subprocess.run(command, env=environment_of(data), capture_output=True, text=True, check=True)
    return next(word for word in made.stdout.split() if word.startswith("sk_"))


def _order(served: Served, key: str) -> None:
    """A few jobs to be found, among them the one of the examples."""
    headers = {"X-Service-Key": key} if key else {}
    rows = [{"item_id": "item-1", "input": {"test_param": "hello"}}]
    jobs = (("test-001", "example-mock", rows), ("failed", "example-fail", rows), ("open", "example-mock", None))
    for job_id, scraper_id, items in jobs:
        order = {"job_id": job_id, "scraper_id": scraper_id} | ({"items": items} if items else {})
        served.ask("POST", "/jobs", order, headers)


def _attack(served: Served, report: Path, turn: FuzzRun, key: str, options: argparse.Namespace) -> int:
    settings = report.with_suffix(".toml")
    headers = f'headers = {{ "X-Service-Key" = "{key}" }}\n' if key else ""
    settings.write_text(headers + _CONFIGURED, encoding="utf-8")
    words = ["--max-examples", str(options.examples), "--request-timeout", str(REQUEST_SECONDS)]
    words += ["--exclude-path-regex", _STREAMS, "--checks", ",".join(turn.checks), "--continue-on-failure"]
    words += [] if options.seed is None else ["--seed", str(options.seed)]
    tool = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings), "--no-color"]
    with report.open("wb") as told:
        return subprocess.run(
            [*tool, "run", f"{served.url}/openapi.json", *words],
            env={**os.environ, "SCHEMATHESIS_HOOKS": HOOKS},
            cwd=report.parent,
            stdout=told,
            stderr=told,
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
