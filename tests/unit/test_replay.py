"""Comparing two judges' verdicts, and a replay that is stopped before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from simstream.cli.main import invoke
from simstream.cli.options import make_fingerprinter, policy_of
from simstream.errors import UsageError, WrongLog
from simstream.judge.policy import Policy
from simstream.log import open_log
from simstream.log.base import Log, OutgoingVerdict
from simstream.log.options import FINGERPRINTS, LogOptions
from simstream.settings import Settings
from simstream.tools.replay.compare import compare
from simstream.tools.replay.replay import missing_topics
from simstream.wire import position as positions
from simstream.wire import verdict as wire
from simstream.wire.position import Position
from tests.unit.test_judge_role import append_frames
from tests.unit.test_verdict import verdict


def publish(log: Log, kinds: dict[int, str], log_id: str = "") -> None:
    """Verdicts of these kinds by ordinal, in an order of their own."""
    made = [verdict(id=f"p{number}", ordinal=number, verdict=kind) for number, kind in sorted(kinds.items())]
    at = Position(log_id or log.topic(FINGERPRINTS).id, 1, max(kinds) + 1, "0" * 16, "5be0c2d1")
    with log.open_publisher() as publisher:
        publisher.start()
        publisher.publish(
            [OutgoingVerdict(one.id.encode(), wire.encode(one), ()) for one in made], positions.encode(at)
        )


def both(folder: Path) -> tuple[Log, Log]:
    old, new = (open_log(str(folder), LogOptions(publish_to=name)) for name in (None, "b"))
    old.create_topics(3)
    new.create_topics()
    return old, new


def default_policy() -> Policy:
    with make_fingerprinter(Settings(), print, workers=0) as fingerprinter:
        return policy_of(Settings(), fingerprinter.recipe, fingerprinter.recipe_id)


def test_verdicts_in_any_order_are_paired_by_ordinal_and_single_ones_counted(tmp_path: Path) -> None:
    old, new = both(tmp_path)
    publish(old, dict.fromkeys(range(20), "near_duplicate"))
    publish(new, {number: "new" if number % 5 == 0 else "near_duplicate" for number in range(2, 23)})
    found = compare(old, new, 2, lambda _: None)
    assert (found.compared, found.only_old, found.only_new, found.same) == (18, 2, 3, 15)
    assert [(pair.old, pair.new, pair.pages) for pair in found.pairs] == [
        ("near_duplicate", "near_duplicate", 15),
        ("near_duplicate", "new", 3),
    ]
    assert found.pairs[1].share == pytest.approx(3 / 18, abs=1e-6)
    assert [example.ordinal for example in found.pairs[1].examples] == [5, 10]


def test_verdicts_of_different_logs_are_not_compared(tmp_path: Path) -> None:
    old, new = both(tmp_path)
    publish(old, {0: "new"})
    with pytest.raises(UsageError, match="no verdicts yet"):
        compare(old, new, 1, lambda _: None)
    publish(new, {0: "new"}, log_id="another")
    with pytest.raises(WrongLog):
        compare(old, new, 1, lambda _: None)


def test_topics_of_verdicts_alone_have_the_other_prefix(tmp_path: Path) -> None:
    _, new = both(tmp_path)
    of_the_log = [new.topic(topic).name for topic in ("pages", "fingerprints", "dead-letters")]
    assert of_the_log == ["simstream.pages", "simstream.fingerprints", "simstream.dead-letters"]
    assert [new.topic(topic).name for topic in ("verdicts", "positions")] == ["b.verdicts", "b.positions"]
    assert new.topic("verdicts").partitions == 3


def test_verdicts_get_the_old_number_of_partitions_or_that_of_pages_where_nothing_was_published(
    tmp_path: Path,
) -> None:
    prefixes = ("old", "never", "a", "b")
    old, never, a, b = (open_log(str(tmp_path), LogOptions(publish_to=name)) for name in prefixes)
    old.create_topics(3, verdict_partitions=2)
    for name, log, other in (("a", a, old), ("b", b, never)):
        made = [report.name for report in missing_topics(log, other, "1")]
        assert made == [f"{name}.verdicts", f"{name}.positions"]
    assert [log.topic("verdicts").partitions for log in (a, b)] == [2, 3]


def test_a_log_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["replay", "--to", "b", "--log", str(tmp_path / "none")]) == 1
    assert "topics create" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    assert invoke(["replay", "--to", "simstream", "--log", str(tmp_path)]) == 2


def test_a_replay_keeps_away_from_the_old_judges_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, _ = both(tmp_path / "log")
    old.close()
    (tmp_path / "simstream.toml").write_text(f'log = "{tmp_path}/log"\nstate = "{tmp_path}/old"\n')
    assert invoke(["replay", "--to", "c", "--config", str(tmp_path / "simstream.toml")]) == 0
    assert "--state" not in capsys.readouterr().err
    assert not (tmp_path / "old").exists()


def test_a_replay_has_its_own_index_whatever_the_settings_say_of_matchers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else it would wait for matchers of the new prefix, which nobody starts."""
    policy = default_policy()
    old, new = both(tmp_path / "log")
    new.create_topics(shards=4)
    append_frames(old, policy, 0, 1)
    (tmp_path / "simstream.toml").write_text(f'log = "{tmp_path}/log"\nshards = 4\nmatches = "matches-4"\n')
    assert invoke(["replay", "--to", "b", "--config", str(tmp_path / "simstream.toml")]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("1 verdict in b.verdicts")
    assert "--shards 0" in said.err.splitlines()[-1]


def test_a_frame_that_does_not_count_is_not_called_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = default_policy()
    old, _ = both(tmp_path)
    append_frames(old, policy, 0, 1)
    with old.open_appender(FINGERPRINTS) as out:
        out.append(b"damaged")
        out.flush(10)
    assert invoke(["replay", "--to", "b", "--log", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"1 verdict in b.verdicts, policy {policy.id}, up to frame 2\n"
