"""The decorators of kernels: what is compiled, what can be called, and folders that cannot be written or read."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config
from numba.core.caching import IndexDataCacheFile

from simstream.kernels import jit
from simstream.kernels.html.sentences import count_marks
from simstream.kernels.jit import helper, kernel, sealed_kernel, sources_digest

PROGRAM = """
import sys
from pathlib import Path
from simstream.kernels import jit
from simstream.kernels.jit import kernel

is_writable = jit._is_writable
jit._is_writable = lambda folder: folder.is_relative_to(sys.argv[1]) and is_writable(folder)
import simstream.kernels.index.hamming

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
    lines = [line for line in code.splitlines() if line.startswith("define") and "count_marks" in line]
    assert len(lines) == 1, "LLVM inlined the helper: call it from more places"
    assert lines[0].count("%") <= 5  # the array's place and size, start, end, and where the result goes: of 11


STEPS = "".join(
    f"""
        if (v >> {step % 8}) % {step + 2} == 1:
            s = (s * {2 * step + 3} + int(rooms.a[(i + {step}) % rooms.a.size])) & 0xFFFFF
        while s > {999_000 - 999 * step}:
            s = s // 2 + k"""
    for step in range(16)
)
"""Steps of a helper that is too large to be inlined."""
SHARING = f"""
import sys
from typing import NamedTuple
import numpy as np
from simstream.kernels.jit import lean_helper, lean_kernel, sealed_kernel

class Rooms(NamedTuple):
    unused: np.ndarray
    a: np.ndarray
    b: np.ndarray

@lean_helper
def mixed(rooms, i, n):
    s = 0
    for k in range(n):
        v = int(rooms.b[(i + k) % rooms.b.size]){STEPS}
    return s

def difference(rooms, i):
    return mixed(rooms, i, 50) - mixed(rooms, i + 1, 60)

def total(rooms, i):
    return mixed(rooms, i, 70) + mixed(rooms, i + 2, 80)

rooms = Rooms(*(np.arange(9 * place, dtype=np.int64) for place in (1, 2, 3)))
kinds = {{"sealed": sealed_kernel(difference), "lean": lean_kernel(total)}}
found = {{name: kinds[name](rooms, 3) for name in sys.argv[1:]}}
plain = mixed.py_func
assert found["sealed"] == plain(rooms, 3, 50) - plain(rooms, 4, 60), found
assert found["lean"] == plain(rooms, 3, 70) + plain(rooms, 5, 80), found
"""


@pytest.mark.parametrize("order", [["sealed", "lean"], ["lean", "sealed"]], ids="-".join)
def test_kernels_that_share_a_helper_answer_right_whichever_is_loaded_first(
    order: list[str], tmp_path: Path
) -> None:
    program = tmp_path / "sharing.py"
    program.write_text(SHARING)
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):  # compiled, then from the cache
        done = subprocess.run(
            [sys.executable, program, *order], env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_kernels_lie_in_the_users_folder_of_their_sources_where_the_other_folders_cannot_be_written(
    tmp_path: Path,
) -> None:
    """numba's own folder for a user goes on with old code where a callee in another file has changed."""
    variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "NUMBA_CACHE_DIR": "/proc/none"}
    program = tmp_path / "program.py"  # numba keeps nothing of a program without a file
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, tmp_path], env=variables, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.parent.parent for path in tmp_path.rglob("*.nbi")} == {
        tmp_path / "simstream" / f"kernels-{sources_digest()}"
    }


def test_kernels_are_compiled_without_a_cache_where_no_folder_can_be_written() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, "/none"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = (
        "no folder for compiled kernels can be written, so each start compiles them again: "
        "set NUMBA_CACHE_DIR to a folder that can be written"
    )
    assert done.stderr.splitlines() == [said]


def doubled(number):  # type: ignore[no-untyped-def]
    return 2 * number


def tripled(number):  # type: ignore[no-untyped-def]
    return 3 * number


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for compiled kernels, about which the log has said nothing yet."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit._ForgivingCache, "said", set())
    return tmp_path / f"kernels-{sources_digest()}"


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_kernel_whose_file_a_power_cut_has_emptied_is_compiled_again_and_kept(
    kept: Path, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert (kernel(doubled)(21), kernel(tripled)(14)) == (42, 42)
    for path in kept.rglob(f"*.{ending}"):
        path.write_bytes(b"")
    assert (kernel(doubled)(21), kernel(tripled)(14)) == (42, 42)
    assert caplog.messages == [
        f"compiled kernels in {kept} cannot be read (EOFError: Ran out of input), so they are compiled again: "
        "if this comes at each start, remove the folder"
    ]
    made = kernel(doubled)
    assert made(21) == 42
    assert sum(made.stats.cache_hits.values()) == 1


def test_kernels_answer_if_the_disk_of_their_folder_is_full_and_leave_no_index_of_code_that_is_not_there(
    kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(IndexDataCacheFile, "_save_data", full)
    assert (kernel(doubled)(21), kernel(tripled)(14)) == (42, 42)
    [said] = caplog.messages
    assert f"cannot be kept in {kept} (OSError: [Errno 28] No space left on device)" in said
    assert not list(kept.rglob("*.nb*"))


@pytest.mark.parametrize("step", ["_load_index", "_save_index"])
def test_a_time_limit_of_the_program_ends_the_call_and_costs_no_kernel(
    kept: Path, step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def give_up(*_: object) -> None:
        raise RuntimeError("the time limit of the task")

    assert kernel(doubled)(21) == 42
    former = signal.signal(signal.SIGUSR1, give_up)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(IndexDataCacheFile, step, lambda *_: signal.raise_signal(signal.SIGUSR1))
            with pytest.raises(RuntimeError, match="the time limit"):
                kernel(doubled if step == "_load_index" else tripled)(21)
    finally:
        signal.signal(signal.SIGUSR1, former)
    again = kernel(doubled)
    assert again(21) == 42
    assert sum(again.stats.cache_hits.values()) == 1
    assert not caplog.messages


def test_a_new_folder_of_kernels_takes_the_place_of_those_that_nobody_uses(kept: Path) -> None:
    def made(name: str, read_ago_s: float, written_ago_s: float) -> None:
        (folder := kept.parent / name).mkdir()
        (folder / "k.nbi").write_bytes(b"compiled")
        os.utime(folder / "k.nbi", (now - read_ago_s, now - written_ago_s))
        os.utime(folder, (now, now - written_ago_s))

    now, long_ago = kept.parent.stat().st_mtime, jit.UNUSED_S + 3600
    made("kernels-0123456789abcdef", long_ago, long_ago)
    made("kernels-00000000000000aa", jit.UNUSED_S - 3600, long_ago)
    made("kernels-of-mine", long_ago, long_ago)
    assert kernel(doubled)(21) == 42
    left = {path.name for path in kept.parent.iterdir()}
    assert left == {kept.name, "kernels-00000000000000aa", "kernels-of-mine"}
