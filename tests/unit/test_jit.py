"""Kernels where no folder for compiled kernels can be written."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from numba.core import caching

for kind in (caching.CompileResultCacheImpl, caching.CacheImpl):
    kind._locator_classes = []
import simstream.kernels.index.hamming
from simstream.kernels.jit import kernel

def double(number):
    return 2 * number

assert kernel(double)(21) == 42
assert kernel(double)(4) == 8
"""


def test_kernels_are_compiled_without_a_cache_where_no_folder_can_be_written() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = (
        "no folder for compiled kernels can be written, so each start compiles them again: "
        "set NUMBA_CACHE_DIR to a folder that can be written"
    )
    assert done.stderr.splitlines() == [said]
