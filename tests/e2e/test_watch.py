"""`make watch` runs a file's tests again at each change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 120
"""Seconds until a watch that says nothing is ended."""


def test_a_changed_source_runs_the_tests_again(tmp_path: Path) -> None:
    for folder in ("stream", "tests", "deploy"):
        (tmp_path / folder).mkdir()
    (tmp_path / "stream" / "answer.py").write_text("ANSWER = 42\n")
    (tmp_path / "tests" / "test_answer.py").write_text(
        "import sys; sys.path.insert(0, 'stream')\nfrom answer import ANSWER\n"
        "def test_answer(): assert ANSWER == 42\n"
    )
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text(encoding="utf-8"))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTEST"))}
    line = ["make", f"--old-file={sys.prefix}/.test", f"VENV={sys.prefix}", "watch", "TESTS=tests"]
    watch = subprocess.Popen(
        line, cwd=tmp_path, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
    )
    assert watch.stdout is not None
    end = threading.Timer(PATIENCE, os.killpg, (watch.pid, signal.SIGKILL))
    end.start()
    try:
        assert any("1 passed" in said for said in watch.stdout)
        (tmp_path / "stream" / "answer.py").write_text("ANSWER = 7  # changed\n")
        assert any("1 failed" in said for said in watch.stdout)
    finally:
        end.cancel()
        os.killpg(watch.pid, signal.SIGINT)
        watch.communicate(timeout=60)
