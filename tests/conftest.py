import signal

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that does other things too.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

pytest.register_assert_rewrite("swath.testing.contracts")  # so that a failed contract says which values it saw

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as in a shell's background; commands under test would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Long bytes do not name a test: they say nothing, and packed ones differ between two test processes."""
    return argname if isinstance(val, bytes) and len(val) > 40 else None
