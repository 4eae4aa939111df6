"""`make test` and `make watch` over a project of one source and one test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 120
"""Seconds until a make that says nothing is ended."""
TEST = """
import sys; sys.path.insert(0, "stream")
from simstream.answer import ANSWER
def test_answer(): assert ANSWER == 42
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("stream/simstream", "tests", "deploy"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "stream" / "simstream" / "__init__.py").touch()
    (tmp_path / "stream" / "simstream" / "answer.py").write_text("ANSWER = 42\n")
    (tmp_path / "tests" / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addoption('--short', action='store_true')\n"
    )
    (tmp_path / "tests" / "test_answer.py").write_text(TEST)
    for file in ("Makefile", "pyproject.toml"):
        (tmp_path / file).write_text((ROOT / file).read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


@contextmanager
def make(project: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A make over this environment, with the set-up taken as done."""
    outer = ("MAKE", "PYTEST", "PYTHONPATH", "SLIPCOVER")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
    done = [f"--old-file={name}" for name in (f"{sys.prefix}/.test", "kernels", "jars")]
    process = subprocess.Popen(
        ["make", *done, f"VENV={sys.prefix}", *arguments],
        cwd=project,
        env=clean,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    end = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGKILL))
    end.start()
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        end.cancel()


def test_a_changed_source_runs_the_tests_again(project: Path) -> None:
    with make(project, "watch", "TESTS=tests") as watch:
        assert watch.stdout is not None
        assert any("1 passed" in said for said in watch.stdout)
        (project / "stream" / "simstream" / "answer.py").write_text("ANSWER = 7  # changed\n")
        assert any("1 failed" in said for said in watch.stdout)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_tests_end_with_the_share_of_lines_that_they_ran(project: Path, workers: str) -> None:
    with (project / "stream" / "simstream" / "answer.py").open("a") as source:
        source.write("def unused():\n    return 1\n")
    with make(project, "test", f"WORKERS={workers}") as test:
        assert test.stdout is not None
        said = test.stdout.read()
    assert "1 passed" in said
    assert "== coverage: 67 % of lines and branches" in said
