"""Numbers of things in what commands say: one thing has no s, and thousands have separators."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from simstream.cli import demo, progress
from simstream.cli.main import invoke
from simstream.log import open_log
from simstream.log.options import PAGES
from simstream.model import Verdict
from simstream.sources.input_files import files_of
from simstream.tools.status.status import _say_waiting
from tests.unit.test_verdict import verdict

Said = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("plan --pages 1", "1 page, distance 8"),
        ("find-all -b 13 -d 8 -i one -o pairs", "1 fingerprint read, 1 of them distinct"),
        ("status --log log", "1 page waits, and no fingerprinter runs"),
    ],
)
def test_a_command_says_one_thing_without_an_s(
    arguments: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one").write_text("7\n")
    with open_log("log") as log:
        log.create_topics(1)
        with log.open_appender(PAGES) as appender:
            appender.append(b"{}")
            appender.flush(10)
    invoke(arguments.split())
    told = capsys.readouterr()
    assert said in told.out + told.err


def test_frames_that_wait_are_counted_with_their_verb() -> None:
    assert [_say_waiting(number) for number in (1, 5_000)] == [
        "1 frame waits for its verdicts",
        "5,000 frames wait for their verdicts",
    ]


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([], "0 pages: no verdict\n"),
        ([verdict()], "\n1 page, 1 verdict, published once, in 0.2 s. A crawler would keep 0 of the 1 page that"),
        ([verdict()] * 2, "\n2 pages, 2 verdicts, each published once, in 0.2 s. A crawler would keep 0 of the 2 "),
    ],
)
def test_the_summary_of_the_demo_counts_none_one_and_more(verdicts: list[Verdict], said: str, capsys: Said) -> None:
    demo._summary(verdicts, [], 0.2)
    assert said in capsys.readouterr().out


def test_a_bar_counts_one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class TerminalText(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    shown = io.BytesIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", TerminalText(shown))
    (tmp_path / "p.jsonl").write_text('{"id": "a", "text": "the night train"}\n')
    list(progress.with_progress(files_of([str(tmp_path / "p.jsonl")]), 1 << 20, "reading"))
    assert b" 1 page, " in shown.getvalue()
