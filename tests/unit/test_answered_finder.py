"""Best matches from the answers of shards: a page that is named must be live."""

from __future__ import annotations

from contextlib import closing

import pytest

from simstream.errors import WrongAnswer
from simstream.judge.policy import Policy
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS
from simstream.wire import answer as wire
from simstream.wire import frame as frames
from tests import shards
from tests.e2e.harness import read_topic
from tests.shards import ShardedJudge
from tests.unit.test_judge_role import append_frames, policy
from tests.unit.test_shard_worker import log

__all__ = ["log", "policy"]


@pytest.mark.parametrize("ties_only", [False, True])
def test_an_answer_that_names_a_page_which_is_not_live_is_a_wrong_answer(
    log: Log, policy: Policy, monkeypatch: pytest.MonkeyPatch, ties_only: bool
) -> None:
    append_frames(log, policy, 0, 2)
    records, stranger = read_topic(log, FINGERPRINTS), bytes(range(16))
    answer = shards.answer

    def naming_a_stranger(*given: object) -> bytes:
        header = wire.decode(answer(*given)).header  # type: ignore[arg-type]
        lists = wire.MatchLists()
        lists.add(0, None if ties_only else stranger, 1, 250, [stranger] if ties_only else [])
        return wire.encode(header, lists.columns())

    with closing(ShardedJudge(policy, 2)) as judge:
        judge.take(records[:1])
        monkeypatch.setattr(shards, "answer", naming_a_stranger)
        with pytest.raises(
            WrongAnswer, match=f"ordinal 1 with the page of identity {stranger.hex()}, which is not"
        ):
            judge.take(records[1:])


@pytest.mark.parametrize(("distance", "agreement"), [(255, 250), (1, 65_535), (1, 0)])
def test_an_answer_with_a_match_that_is_none_under_the_policy_is_a_wrong_answer(
    log: Log, policy: Policy, monkeypatch: pytest.MonkeyPatch, distance: int, agreement: int
) -> None:
    append_frames(log, policy, 0, 2)
    records = read_topic(log, FINGERPRINTS)
    live, answer = frames.decode(records[0].value or b"").columns.identity[0].tobytes(), shards.answer

    def exaggerating(*given: object) -> bytes:
        header = wire.decode(answer(*given)).header  # type: ignore[arg-type]
        lists = wire.MatchLists()
        lists.add(0, live, distance, agreement, [])
        return wire.encode(header, lists.columns())

    with closing(ShardedJudge(policy, 2)) as judge:
        judge.take(records[:1])
        monkeypatch.setattr(shards, "answer", exaggerating)
        with pytest.raises(WrongAnswer, match=f"at distance {distance} with {agreement} of 256 bits"):
            judge.take(records[1:])
