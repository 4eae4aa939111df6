"""Tables of figures are printed whole, however narrow the terminal is."""

from __future__ import annotations

import pytest

from simstream.cli.main import invoke


@pytest.mark.parametrize("more", [[], ["--matchers"]])
def test_no_figure_of_a_plan_is_cut_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert invoke(["plan", "--pages", "10M", *more]) == 0
    said = capsys.readouterr().out
    assert "…" not in said
    assert len({len(line) for line in said.splitlines()[2:5]}) == 1, "a row is one line"
