"""`python -m swath.testing.api_fuzz.offline serve …`: `swath`, which connects to nothing that was not allowed to it by
name, so that callback addresses that a fuzzer makes up reach nobody."""

from __future__ import annotations

import runpy
import sys

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.testing.broken import put_in_place_of
from swath.web.egress.guard import Guard, Target

__all__ = ["cut_off", "main"]

_checked = Guard._checked  # noqa: SLF001 everything that leaves the process passes here


def main() -> None:
    """Becomes `swath` with the arguments that are left."""
    cut_off()
    sys.argv[0] = "swath"
    runpy.run_module("swath.entrypoints.cli.main", run_name="__main__", alter_sys=True)


def cut_off() -> None:
    """From now on the guards of this process let nothing else pass."""
    put_in_place_of(Guard, "_checked", _only_allowed)


async def _only_allowed(self: Guard, scheme: str, host: str, port: int) -> tuple[Target, float]:
    if (host, port) not in self._allowed:
        raise Failed(Failure(FailureKind.DNS_UNKNOWN, f"{host} is not looked up while we are attacked"))
    return await _checked(self, scheme, host, port)


if __name__ == "__main__":
    main()
