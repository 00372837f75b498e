import gc
import os
import signal

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that does other things too.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

pytest.register_assert_rewrite("tests.contract.suites")  # so that a failed contract says which values it saw

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as in a shell's background; commands under test would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Long bytes do not name a test: they say nothing, and packed ones differ between two test processes."""
    return argname if isinstance(val, bytes) and len(val) > 40 else None


def pytest_collection_finish() -> None:
    """Modules and tests stay: to look through them for garbage again and again costs more than it finds."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test process begins with its share of the long ones, so that none of them is left alone at the end.

    Processes are given tests in a row, as many to each; those that are done take some of the others' last ones.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long = [item for item in items if item.get_closest_marker("long")]
    others = [item for item in items if not item.get_closest_marker("long")]
    ordered: list[pytest.Item] = []
    for number in range(processes):
        first = long[number::processes]
        share = (len(items) - len(ordered)) // (processes - number) - len(first)
        ordered += first + others[: max(share, 0)]
        del others[: max(share, 0)]
    items[:] = ordered + others
