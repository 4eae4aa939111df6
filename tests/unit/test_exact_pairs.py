"""`dedup --exact`: the true J of each near duplicate and the version of the page that it names."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from simstream import Deduper
from simstream.cli.main import invoke
from simstream.errors import SimstreamError
from simstream.model import Page, PageKind, Record
from simstream.tools.dedup import text_rows
from simstream.tools.dedup.exact_pairs import ExactPairs
from simstream.tools.dedup.text_rows import TextRows
from simstream.wire.page import NO_TIME
from tests.e2e import pages
from tests.e2e.harness import ROOT, command_line, environment
from tests.naive_truth import jaccard


@pytest.mark.parametrize(("link", "together"), [("any", 1024), ("canonical", 7)])
def test_j_is_that_of_the_versions_which_were_live(
    link: Any, together: int, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over every kind of page: versions, edits, failed fetches, withdrawals."""
    monkeypatch.setattr(text_rows, "MAX_BATCH_PAIRS", together)
    records = [
        Record("p", 0, i, f"p:{i}".encode() * (b'"id"' not in line), line, (), NO_TIME)
        for i, line in enumerate(pages.lines(700, 11))
    ]
    live: dict[str, str] = {}
    expected: list[tuple[bytes, float]] = []
    texts: list[str] = []
    with (
        Deduper(cache=cache, workers=0, link=link, distance=12, similarity=0.3) as deduper,
        ExactPairs(2) as exact,
    ):

        def seen(batch: Any) -> None:
            exact.note_pages(batch.pages)
            texts.extend(page.text or "" for page in batch.pages)

        for number, verdict in enumerate(deduper.stream(records, 2, seen)):
            line = str(number).encode()
            if verdict.near_duplicate_of is not None and number % 3:
                expected.append((line, jaccard(texts[number], live[verdict.near_duplicate_of])))
            exact.take(verdict, line if number % 3 else None)
            if verdict.verdict in ("new", "near_duplicate", "unchanged"):
                live[verdict.id] = texts[number]
        found = list(exact.lines())
    assert len(expected) > 20
    assert len({alike for _, alike in expected}) > 5
    assert found == [(line, pytest.approx(alike)) for line, alike in expected]


def test_without_pairs_there_are_no_lines() -> None:
    with ExactPairs() as exact:
        exact.note_pages([Page("a", b"0" * 16, 0, 0, kind=PageKind.TOO_SHORT, text="few")])
        assert list(exact.lines()) == []


def test_long_texts_are_compared_in_smaller_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_rows, "MAX_BATCH_BYTES", 10)
    with Deduper(workers=0, similarity=0.3, distance=16) as deduper, ExactPairs() as exact:
        texts = [f"the same eight words and some more of number {n} in one line" for n in range(4)]
        records = [Record("p", 0, n, None, json.dumps({"id": str(n), "text": text}).encode(), (), 0)
                   for n, text in enumerate(texts)]  # fmt: skip
        expected = []
        for n, verdict in enumerate(deduper.stream(records, 1, lambda batch: exact.note_pages(batch.pages))):
            exact.take(verdict, b"-")
            if verdict.near_duplicate_of:
                expected.append((b"-", pytest.approx(jaccard(texts[n], texts[int(verdict.near_duplicate_of)]))))
        assert len(expected) > 1
        assert list(exact.lines()) == expected


@pytest.mark.parametrize("buffer_bytes", [0, 1000])
def test_a_full_disk_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, buffer_bytes: int) -> None:
    """Closing fails, too, if bytes wait in a buffer; that must not hide the first error."""
    full = Path("/dev/full").open("wb", buffering=buffer_bytes)  # noqa: SIM115  # closed by the rows
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: full)
    with TextRows() as rows, pytest.raises(SimstreamError, match=r"No space left.*TMPDIR"):
        deque(map(rows.add, [b"x" * 100] * 30))


DEMO = ROOT / "stream" / "simstream" / "sources" / "demo_pages.jsonl"


def test_pairs_get_a_field_more_and_verdicts_stay_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [
        "dedup",
        str(DEMO),
        "--max-unreadable",
        "1",
        "--pairs",
        f"{tmp_path}/plain",
        "-o",
        f"{tmp_path}/v1",
        "--threads",
        "1",
    ]
    exact = [
        "dedup",
        str(DEMO),
        "--max-unreadable",
        "1",
        "--pairs",
        f"{tmp_path}/exact",
        "-o",
        f"{tmp_path}/v2",
        "--exact",
    ]
    assert invoke(plain) == 0
    assert re.search(r"simstream: [\d.]+ s, peak memory [\d,.]+ [MG]iB\n", capsys.readouterr().err)
    monkeypatch.setattr("simstream.cli.dedup.MIN_RATED_S", 0.0)
    assert invoke(exact) == 0
    assert (tmp_path / "v1").read_bytes() == (tmp_path / "v2").read_bytes()
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("plain", "exact"))
    pairs = [json.loads(line) for line in after]
    assert all(line.startswith(old[:-1] + ',"jaccard":') for old, line in zip(before, after, strict=True))
    told = [page for page in map(json.loads, _whole()) if page.get("text")]
    names = [page.get("id") or page.get("url") for page in told]
    texts = {name: page["text"] for name, page in zip(names, told, strict=True) if names.count(name) == 1}
    known = [pair for pair in pairs if pair["a"] in texts and pair["b"] in texts]
    assert len(known) > 3
    assert all(
        pair["jaccard"] == pytest.approx(jaccard(texts[pair["a"]], texts[pair["b"]]), abs=6e-5) for pair in known
    )
    assert re.search(r"simstream: [\d.]+ s, [\d,]+ pages/s, peak memory [\d,.]+ [MG]iB\n", capsys.readouterr().err)


def test_exact_without_pairs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["dedup", str(DEMO), "-o", f"{tmp_path}/v", "--exact"]) == 2
    assert "--exact needs --pairs, which is not given" in capsys.readouterr().err
    assert not (tmp_path / "v").exists()


def test_on_a_terminal_a_bar_says_how_fast_and_how_long(tmp_path: Path, cache: Path) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", 0) as terminal:
        arguments = command_line("dedup", DEMO, "--max-unreadable", 1, "-o", tmp_path / "v")
        program = subprocess.Popen(
            arguments, stderr=theirs, cwd=ROOT, env=environment(cache, COLUMNS="120", TERM="xterm")
        )
        os.close(theirs)
        shown = _all(terminal)
        assert program.wait(60) == 0
    assert re.search(rb"judging.*[1-9]\d* pages, [\d,]+/s", shown)
    assert re.search(rb"\d:\d\d:\d\d", shown)


def _all(terminal: Any) -> bytes:
    """What comes until the other side is closed, which Linux reports as an error."""
    parts = []
    try:
        while part := terminal.read(65536):
            parts.append(part)
    except OSError:
        pass
    return b"".join(parts)


def _whole() -> list[bytes]:
    return [line for line in DEMO.read_bytes().splitlines() if line.startswith(b"{") and line.endswith(b"}")]
