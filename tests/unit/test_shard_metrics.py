"""What a matcher's metrics say of the shards that it holds, over a local log."""

from __future__ import annotations

from simstream.index.shard import Shard
from simstream.judge.policy import Policy
from simstream.log.base import Log
from simstream.roles.context import RoleContext
from simstream.roles.match.answer_writer import AnswerWriter
from simstream.roles.match.role import MatchRole
from simstream.roles.match.shard_worker import MatcherContext, ShardWorker, matcher_name
from simstream.settings import Settings
from simstream.wire.position import Position
from tests.role_threads import PATIENCE_S, running
from tests.unit.test_judge_role import append_frames, policy, until
from tests.unit.test_shard_worker import SHARDS, log

__all__ = ["log", "policy"]


class GivenPosition:
    """The position that a judge has published; None before the first."""

    published: Position | None = None


def series(context: RoleContext, shard: int) -> dict[str, str]:
    """The series of a shard, with their values."""
    lines = [line for line in context.metrics.text().decode().splitlines() if f'shard="{shard}"' in line]
    return {line.split("{")[0]: line for line in lines}


def test_a_matcher_measures_the_shards_that_it_holds_and_forgets_what_it_gives_back(
    log: Log, policy: Policy
) -> None:
    append_frames(log, policy, 0, 300)
    context = RoleContext(Settings(instance="one", copy=2))
    with running(MatchRole(log, policy, context).run, context):
        for shard in range(SHARDS):
            until(lambda at=shard: read(context, "shard_position", at) == 300, f"shard {shard} has answered all")
            until(lambda at=shard: read(context, "shard_entries", at) > 0, "it is measured again")
            assert set(series(context, shard)) == {
                "simstream_shard_entries",
                "simstream_shard_bytes",
                "simstream_shard_position",
                "simstream_shard_replay_frames",
                "simstream_shard_info",
            }
            assert 'copy="2",matcher="one"' in series(context, shard)["simstream_shard_info"]
            assert read(context, "shard_bytes", shard) > 0
    assert [series(context, shard) for shard in range(SHARDS)] == [{}] * SHARDS


def read(context: RoleContext, name: str, shard: int) -> float:
    return context.metrics.registry.get_sample_value(f"simstream_{name}", {"shard": str(shard)}) or 0.0


def test_a_shard_says_how_many_published_frames_it_has_not_read(log: Log, policy: Policy) -> None:
    append_frames(log, policy, 0, 10)
    context = RoleContext(Settings())
    position = GivenPosition()
    with AnswerWriter(log) as writer:
        matcher = MatcherContext(log, "L", policy, position, writer, context)
        worker = ShardWorker(matcher, Shard(1, SHARDS))
        worker.start()
        until(lambda: read(context, "shard_position", 1) == 10, "all frames are read")
        position.published = Position("L", 50, 50, "0" * 16, "P")
        until(lambda: read(context, "shard_replay_frames", 1) == 40, "ten of fifty frames are read")
        worker.stop()
        worker.join(PATIENCE_S)
    assert worker.error is None


def test_a_matcher_without_an_instance_is_named_by_its_machine_and_process() -> None:
    host, _, process = matcher_name(Settings()).rpartition(":")
    assert host
    assert process.isdigit()
    assert matcher_name(Settings(instance="a")) == "a"
