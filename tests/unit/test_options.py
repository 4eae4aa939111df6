"""Settings of commands that take all cores where nobody says how many."""

from __future__ import annotations

from pathlib import Path

import pytest

from simstream.cli import options
from simstream.cli.options import settle, settle_on_all_cores


@pytest.fixture(autouse=True)
def seven_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(options, "cores", lambda: 7)
    for name in ("SIMSTREAM_THREADS", "SIMSTREAM_EXTRACT_WORKERS"):
        monkeypatch.delenv(name, raising=False)


def test_all_cores_are_taken_where_nobody_says_how_many() -> None:
    settings = settle_on_all_cores(None, threads=None)
    assert (settings.threads, settings.extract.workers) == (7, 7)
    assert settle(None).threads != 7


def test_what_a_flag_a_variable_or_the_file_says_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settle_on_all_cores(None, threads="3").threads == 3
    Path("simstream.toml").write_text("threads = 4\n")
    assert settle_on_all_cores(None, threads=None).threads == 4
    monkeypatch.setenv("SIMSTREAM_EXTRACT_WORKERS", "0")
    settings = settle_on_all_cores(None, threads="5")
    assert (settings.threads, settings.extract.workers) == (5, 0)
