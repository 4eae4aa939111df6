"""Tables of figures are printed whole, however narrow the terminal is."""

from __future__ import annotations

import pytest

from simstream.cli import state, status
from simstream.cli.main import invoke
from simstream.tools.state.inspect import FolderInspection, SnapshotDescription, StatePart
from simstream.tools.status.shards import ShardStatus
from simstream.tools.status.status import PartitionLag, ServiceStatus


@pytest.mark.parametrize("more", [[], ["--matchers"]])
def test_no_figure_of_a_plan_is_cut_in_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert invoke(["plan", "--pages", "10M", *more]) == 0
    said = capsys.readouterr().out
    assert "…" not in said
    assert len({len(line) for line in said.splitlines()[2:5]}) == 1, "a row is one line"


@pytest.mark.parametrize("columns", [20, 80])
def test_status_cuts_no_figure_and_no_matcher(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    owners = {copy: f"news-matchers-{copy}-0.news-matchers.production@10.0.0.{copy}:20971" for copy in (1, 2)}
    lags = [PartitionLag(partition, 1_000_540, 2_000_540, 3_000_540, 1_000_000) for partition in range(2)]
    status._print(ServiceStatus("log", "news", source=lags, shards=[ShardStatus(0, owners, 123_456_789, 0)]))
    words = capsys.readouterr().out.split()
    assert {"2,000,540", "123,456,789", *owners.values()} <= set(words)
    assert not [word for word in words if "…" in word]


def test_what_is_in_a_state_is_shown_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    facts = {"frame": 1_234_567, "digest": "0123456789abcdef", "positions": [["topic-of-a-long-id", 3, 7_654_321]]}
    part = StatePart("rows", "rows", None, 172_749, {})
    snapshot = SnapshotDescription("manifest-1", 1, 2.0, facts, [part], {"rows": 172_749})
    state._print(FolderInspection("state", [snapshot], {"rows": 172_749}, 0))
    out = capsys.readouterr().out
    assert {"1,234,567", "0123456789abcdef", "topic-of-a-long-id", "7,654,321"} <= set(out.split())
    assert "168.7 KiB" in out
    assert "…" not in out
