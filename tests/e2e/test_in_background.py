"""The tests pass in the background too, where a shell has told its children to ignore Ctrl-C."""

from __future__ import annotations

import subprocess
import sys

from tests.e2e.harness import ROOT


def test_a_test_that_interrupts_a_program_passes_where_ctrl_c_is_ignored() -> None:
    interrupts = "tests/e2e/test_errors.py::test_ctrl_c_on_an_endless_input_ends_with_130"
    done = subprocess.run(
        ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-m", "pytest", "-q", interrupts],
        capture_output=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()
    assert b"1 passed" in done.stdout
