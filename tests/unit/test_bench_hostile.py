"""The benchmark of hostile HTML runs, and what it says holds by a wide margin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import hostile


@pytest.mark.long
def test_hostile_pages_among_ordinary_ones_leave_them_most_of_their_throughput(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    ratios = hostile.run(pages=200, size=20_000, share=0.05, workers=2, rounds=3)
    assert ratios.throughput > 0.5
    said = capsys.readouterr().out
    assert "throughput of ordinary pages, with to without" in said
    assert "a page by way of a process, to the parser alone" in said
