"""The command line without its script: `python -m swath`."""

import subprocess
import sys

import pytest

from swath import __version__


@pytest.mark.req("C1")
def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "swath", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"swath, version {__version__}"
