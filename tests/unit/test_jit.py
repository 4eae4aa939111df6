"""The decorators of kernels: what is compiled, and what can be called; and where no folder can be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config

from simstream.kernels.html.sentences import count_marks
from simstream.kernels.jit import helper, kernel, sealed_kernel

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


def test_numbers_in_a_source_give_a_helper_no_further_signature() -> None:
    @helper
    def add(one, other):  # type: ignore[no-untyped-def]
        return one + other

    @kernel
    def add_some(number):  # type: ignore[no-untyped-def]
        total = 0
        for _ in range(3):
            total = add(total, number)
        return add(add(total, 1), 2)

    assert add_some(5) == 18
    assert len(add.signatures) == 1


def test_a_helper_that_python_calls_raises_and_does_not_jump_to_a_wrapper_that_is_not_there() -> None:
    @helper
    def double(number):  # type: ignore[no-untyped-def]
        return 2 * number

    @kernel
    def four_times(number):  # type: ignore[no-untyped-def]
        return double(double(number))

    for _ in range(2):  # before it is compiled, and after
        with pytest.raises(TypeError, match="double is a helper"):
            double(2)
        assert four_times(2) == 8


def marks_before(text, start, middle, end):  # type: ignore[no-untyped-def]
    return count_marks(text, start, middle) - count_marks(text, middle, end)


def test_a_helper_of_a_sealed_kernel_takes_only_what_it_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))  # what is read from a cache cannot be looked at
    made = sealed_kernel(marks_before)
    assert made(np.frombuffer(b"One. Two! Three?" + bytes(64), np.uint8), 0, 5, 16) == -1
    [code] = made.inspect_llvm().values()
    [line] = (line for line in code.splitlines() if line.startswith("define") and "count_marks" in line)
    assert line.count("%") <= 5  # the array's place and size, start, end, and where the result goes: of 11


def test_kernels_are_compiled_without_a_cache_where_no_folder_can_be_written() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = (
        "no folder for compiled kernels can be written, so each start compiles them again: "
        "set NUMBA_CACHE_DIR to a folder that can be written"
    )
    assert done.stderr.splitlines() == [said]
