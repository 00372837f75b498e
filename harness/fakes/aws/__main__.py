"""`python -m harness.fakes.aws`: runs the servers until it is interrupted, and prints how to speak to them."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from pathlib import Path

from harness.fakes.aws.endpoints import DISTURBING
from harness.fakes.aws.servers import NotInstalled, ServersFailed, running_servers
from harness.fakes.aws.shared_servers import serve_test_run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m harness.fakes.aws", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="serve a test run, and end with it")
    keep_for: Path | None = parser.parse_args().keep
    try:
        if keep_for is None:
            _run()
        else:
            serve_test_run(keep_for)
    except (NotInstalled, ServersFailed) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), running_servers() as servers:
        print(servers.endpoints.exports())
        print(f"unset {' '.join(DISTURBING)}")
        print("# three servers run until you press Ctrl-C; their data goes with them", flush=True)
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
