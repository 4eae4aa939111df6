"""What a state says of shards and answers, so that it is never taken up where it does not belong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from simstream.errors import WrongLog, WrongPolicy
from simstream.index.plan import MAX_DISTANCE, divided_plan
from simstream.index.shard import Shard
from simstream.judge.answer_book import AnswerBook
from simstream.judge.policy import Policy
from simstream.judge.state import JudgeState, LogState, ShardState

POLICY = Policy("0badcafe", 0, 3, 0, None, "any")


def facts_of(state: LogState, **changed: Any) -> dict[str, Any]:
    with state:
        return {**state.facts("L"), **changed}


def answered_judge(topic_id: str) -> JudgeState:
    book = AnswerBook("L", POLICY.id, 2, 3, topic_id)
    book.begin(0, 0, [0, 0])
    return JudgeState(POLICY, book=book)


def refused(state: LogState, facts: Mapping[str, Any]) -> str:
    with state, pytest.raises((WrongLog, WrongPolicy)) as error:
        state.restore([], facts, "L")
    return f"{error.value}: {error.value.todo}"


def test_a_judge_refuses_offsets_of_another_topic_of_answers() -> None:
    said = refused(answered_judge("new"), facts_of(answered_judge("old")))
    assert "answers of another topic than this one (unique ids old and new)" in said
    assert "give the --matches with which the state was made" in said
    assert "give judges and matchers empty folders" in said


def test_a_state_without_the_topic_of_its_answers_is_taken_up() -> None:
    """Such states are of earlier versions; `roles/judge/role` looks at their offsets."""
    facts = facts_of(answered_judge("old"), answers_topic="")
    with answered_judge("new") as state:
        parts = state.parts()
        state.restore(parts, facts, "L")


def test_a_matcher_refuses_a_shard_of_another_cut() -> None:
    own = facts_of(ShardState(POLICY, Shard(1, 4)))
    assert own["tables"] == divided_plan(POLICY.distance).tables
    said = refused(ShardState(POLICY, Shard(1, 4)), {**own, "tables": own["tables"] + 1})
    assert f"cut into {own['tables'] + 1} tables, this version cuts it into {own['tables']}" in said


def test_the_cut_of_shards_stays_as_it_was() -> None:
    """Another cut needs empty folders for all matchers, and a line in CHANGELOG that says so."""
    found = [divided_plan(distance).tables for distance in range(MAX_DISTANCE + 1)]
    assert found == [1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4]
