"""The plan of matchers: what it says of a shard is what a shard takes, and it says so for billions of pages."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from simstream.cli.main import main
from simstream.errors import UsageError
from simstream.files.blocks import cut
from simstream.index.index import Index
from simstream.index.plan import divided_plan
from simstream.index.shard import Shard
from simstream.judge.shard_matcher import owned_keys
from simstream.judge.state import JudgeState
from simstream.tools.plan.costs import MAX_PAGES, UNKNOWN, PageLookups
from simstream.tools.plan.shards import held_share, shard_bytes, weigh_fleets
from tests.bench.made_pages import PageMaker, policy
from tests.bench.shards import keys
from tests.bench.state import judge

LOOKUPS = PageLookups(1, 1)
GB = 1 << 30


@pytest.mark.parametrize("shards", [2, 8, 64])
def test_a_shard_takes_what_the_formula_says(shards: int) -> None:
    known, distance = keys(200_000), 8
    numbers = np.flatnonzero(owned_keys(Shard(0, shards), known, LOOKUPS.lookups, distance)).astype(np.uint32)
    assert len(numbers) == pytest.approx(held_share(shards, distance, LOOKUPS.lookups) * 200_000, rel=0.03)
    with closing(Index(None, 4, distance, 0, 64, further_draws=1, shard=Shard(0, shards))) as index:
        index.add(numbers, known.fingerprints[numbers], known.sketches[numbers], None, None)
        size = index.nbytes()
    taken = sum(size[part] for part in ("tables", "sketches", "rows"))
    assert taken == pytest.approx(shard_bytes(200_000, shards, distance, LOOKUPS.lookups), rel=0.1)


def test_more_shards_take_less_each_and_are_faster() -> None:
    rows = weigh_fleets(10**9, 8, LOOKUPS, None, UNKNOWN).rows
    assert [row.shards for row in rows] == [2, 4, 8, 16, 32, 64, 128, 256]
    for more, fewer in zip(rows[1:], rows, strict=False):
        assert more.shard_bytes < fewer.shard_bytes
        assert more.held < fewer.held
        assert more.pages_a_second >= fewer.pages_a_second
        assert more.judge_pages_a_second < fewer.judge_pages_a_second, "each shard gives it an answer"


@pytest.mark.parametrize(("billions", "judges"), [(1, 1), (2, 2), (10, 7), (100, 63)])
def test_billions_of_pages_are_divided_among_judges_and_matchers(billions: int, judges: int) -> None:
    """Assumed: 32 GiB a matcher. More pages than the alert of a judge's limit allows need several prefixes."""
    report = weigh_fleets(billions * 10**9, 8, LOOKUPS, 32 * GB, UNKNOWN)
    assert report.judges == judges == -(-billions * 10**9 // MAX_PAGES)
    assert report.judge_bytes <= 75 * GB
    assert report.chosen is not None
    assert report.chosen.shard_bytes <= 32 * GB
    assert report.chosen.shards in (16, 32)


def test_the_plan_of_a_judge_has_room_for_the_copy_of_a_snapshot() -> None:
    state, made = JudgeState(policy()), PageMaker(near=0.13, copies=0.07)
    for _ in range(20):
        judge(state, made.batch())
    sizes, live = state.resolver.nbytes(), state.resolver.live_pages
    kept = sum(sizes[part] for part in ("rows and chains", "clusters", "directory"))
    parts = [part for part in state.resolver.parts() if part.kind in ("table", "directory")]
    copied = cut(parts, 1, {}, {}).content.nbytes
    assert weigh_fleets(live, 8, LOOKUPS, None, UNKNOWN).judge_bytes == pytest.approx(kept + copied, rel=0.1)


def test_a_size_that_fits_nowhere_is_refused_with_what_would_help() -> None:
    with pytest.raises(UsageError, match="256 shards take") as error:
        weigh_fleets(10**9, 8, LOOKUPS, 1 << 20, UNKNOWN)
    assert "--memory" in error.value.todo
    with pytest.raises(UsageError, match=r"1,600,000,000 pages \(8,000,000,000, divided among 5 prefixes\) on 256"):
        weigh_fleets(8 * 10**9, 8, LOOKUPS, 1 << 20, UNKNOWN)


def test_the_plan_of_a_judge_ends_where_its_alert_begins() -> None:
    rules = (Path(__file__).parents[2] / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8")
    limit = re.search(r"simstream_numbers_used > (\S+)", rules)
    assert limit is not None
    assert float(limit[1]) == MAX_PAGES
    done = CliRunner().invoke(main, ["plan", "--pages", "2G"])
    assert done.exit_code == 0, done.output
    assert "among 2 prefixes" in done.output


def test_the_command_marks_the_smallest_fleet_that_fits() -> None:
    done = CliRunner().invoke(main, ["plan", "--pages", "1G", "--matchers", "--memory", "32GB"])
    assert done.exit_code == 0, done.output
    assert "1,000,000,000 pages on matchers" in done.output
    assert "measured on one core here" in done.output
    assert f"{divided_plan(8).tables} tables" in done.output
    assert any(line.startswith("→") and " 16 " in line for line in done.output.splitlines())
    assert "the judge beside them" in done.output
    done = CliRunner().invoke(main, ["plan", "--pages", "1G", "--matchers", "--json"])
    assert [row["shards"] for row in json.loads(done.output)["rows"]][:2] == [2, 4]
