"""Settings of commands that take all cores where nobody says how many."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest

from simstream.cli import options
from simstream.cli.main import main
from simstream.cli.options import make_deduper, settle, settle_on_all_cores
from simstream.errors import UsageError


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


@pytest.mark.parametrize(
    ("command", "flags", "level"),
    [
        ("verdicts", "", None),
        ("verdicts", "-v", "info"),
        ("verdicts", "-vv", "debug"),
        ("verdicts", "-vvvvvv", "debug"),
        ("verdicts", "--log-level error", "error"),
        ("serve", "", None),
        ("serve", "-v", "debug"),
        ("serve", "--log-level warning", "warning"),
    ],
)
def test_v_writes_more_log_lines_than_the_command_usually_does(command: str, flags: str, level: str | None) -> None:
    @click.command(command)
    @options.log_options
    def try_it(**given: Any) -> None:
        assert given["log_level"] == level

    try_it.main(flags.split(), standalone_mode=False, prog_name=command)


def test_v_and_a_level_together_are_refused() -> None:
    with pytest.raises(UsageError, match="-v and --log-level are both given: give one"):
        main.main(["verdicts", "-v", "--log-level", "info"], standalone_mode=False)


@pytest.mark.parametrize(("level", "kept"), [("debug", "abc"), ("info", "bc"), ("warning", "c"), ("error", "")])
def test_lines_from_the_level_on_are_written_and_debug_of_other_packages_never(
    level: str, kept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root, own = logging.getLogger(), logging.getLogger("simstream")
    before = root.handlers[:], root.level, own.level
    try:
        assert settle(None, log_level=level).log_level == level
        for name in ("simstream.some", "other"):
            logging.getLogger(name).debug("a")
        logging.getLogger("simstream.some").info("b")
        logging.getLogger("simstream.some").warning("c")
    finally:
        root.handlers = before[0]
        root.setLevel(before[1])
        own.setLevel(before[2])
    assert "".join(line[-1] for line in capsys.readouterr().err.splitlines()) == kept


def test_files_are_judged_in_memory_where_no_folder_takes_temporary_files(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    with pytest.raises(FileNotFoundError):
        tempfile.gettempdir()
    with make_deduper(settle(None)) as deduper:
        assert [verdict.verdict for verdict in deduper.judge(["Too short."])] == ["too_short"]
