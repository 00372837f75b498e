"""Memory that a worker has freed stays with it: parsing page after page asks the system for none."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_PARSING = """
import resource
from selectolax.lexbor import LexborHTMLParser
from swath.pipeline.worker.worker import keep_freed_memory

def faults(pages):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(pages):
        LexborHTMLParser(b"<table>" + b"<tr><td>a value</td></tr>" * 400)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
faults(10)
print(faults(200) / 200)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
def test_freed_memory_is_kept_for_the_next_page() -> None:
    told = subprocess.run([sys.executable, "-c", _PARSING], check=True, capture_output=True, text=True)
    assert float(told.stdout) < 5  # some forty without it
