"""Best matches from the answers of shards: a page that is named must be live."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise

import msgspec
import pytest

from simstream.errors import WrongAnswer
from simstream.judge.policy import Policy
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS
from simstream.roles.context import RoleContext
from simstream.roles.judge.log_judge import LogJudge
from simstream.settings import Settings
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


@pytest.mark.parametrize(("cuts", "wrong", "taken"), [([0, 4], [1, 2, 3], 2), ([0, 1, 4], [0], 3)])
def test_no_page_is_judged_if_an_answer_belongs_to_other_frames(
    log: Log, policy: Policy, cuts: list[int], wrong: list[int], taken: int
) -> None:
    """The answer ends behind the frames that are judged together, or among them, with a right one behind it."""
    append_frames(log, policy, 0, 4)
    records = read_topic(log, FINGERPRINTS)
    with (
        closing(ShardedJudge(policy, 2)) as sharded,
        LogJudge(policy, RoleContext(Settings()), "judge", sharded.book) as judge,
    ):
        for number, state in enumerate(sharded.shards):
            for offset, (begin, end) in enumerate(pairwise(cuts)):
                found = wire.decode(shards.answer(state, records[begin:end]))
                digests = [b"X" * 8 if number and frame in wrong else b"" for frame in range(begin, end)]
                known = [found.header.digests[at : at + 8] for at in range(0, len(found.header.digests), 8)]
                header = msgspec.structs.replace(
                    found.header, digests=b"".join(new or old for new, old in zip(digests, known, strict=True))
                )
                assert sharded.book.add(number, offset, wire.encode(header, found.matches)) is None
        with pytest.raises(WrongAnswer, match=f"shard 1 answers for {0x5858585858585858:x}"):
            judge.take(records[:taken])
        assert judge.state.resolver.live_pages == 0


def test_answers_are_dropped_once_their_frames_are_judged(log: Log, policy: Policy) -> None:
    append_frames(log, policy, 0, 2)
    records = read_topic(log, FINGERPRINTS)
    with (
        closing(ShardedJudge(policy, 2)) as sharded,
        LogJudge(policy, RoleContext(Settings()), "judge", sharded.book) as judge,
    ):
        for offset, record in enumerate(records):
            for number, state in enumerate(sharded.shards):
                assert sharded.book.add(number, offset, shards.answer(state, [record])) is None
        judge.take(records[:1])
        assert len(list(sharded.book.of(0, 2))) == 2, "one answer of each shard is left"


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
