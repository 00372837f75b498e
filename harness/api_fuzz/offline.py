"""`python -m harness.api_fuzz.offline serve …`: `swath`, which connects to nothing that was not allowed to it by
name, so that callback addresses that a fuzzer makes up reach nobody."""

from __future__ import annotations

import runpy
import sys

from harness.broken_builds import replace_function
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.guard import EgressGuard, EgressTarget

__all__ = ["block_connections", "main"]

_checked = EgressGuard._checked  # noqa: SLF001 everything that leaves the process passes here


def main() -> None:
    """Becomes `swath` with the arguments that are left."""
    block_connections()
    sys.argv[0] = "swath"
    runpy.run_module("swath.entrypoints.cli.main", run_name="__main__", alter_sys=True)


def block_connections() -> None:
    """From now on the guards of this process let nothing else pass."""
    replace_function(EgressGuard, "_checked", _only_allowed)


async def _only_allowed(self: EgressGuard, scheme: str, host: str, port: int) -> tuple[EgressTarget, float]:
    if (host, port) not in self._allowed:
        raise Failed(Failure(FailureKind.DNS_UNKNOWN, f"{host} is not looked up while we are attacked"))
    return await _checked(self, scheme, host, port)


if __name__ == "__main__":
    main()
