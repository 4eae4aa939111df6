"""The acceptor, rule by rule."""

from __future__ import annotations

import pytest

from simstream.errors import StateDamaged
from simstream.judge.acceptor import AcceptedPages, Acceptor, IgnoreReason
from simstream.judge.policy import make_policy
from simstream.judge.state import JudgeState
from simstream.judge.state_facts import restore_acceptor
from simstream.text.recipe import preset
from simstream.wire import frame as frames
from tests.columns import page_columns

RECIPE = "0badcafe"
NOW = 10_000


def frame(start: int, offsets: list[int], to: int | None = None, **more: object) -> bytes:
    header = frames.FrameHeader(
        **{
            "recipe": RECIPE,
            "topic": "t.pages",
            "topic_id": "T",
            "partition": 0,
            "start": start,
            "to": offsets[-1] + 1 if to is None else to,
            "sketch_words": 0,
            **more,
        }
    )
    names = [f"page{offset}".encode() for offset in offsets]
    times = [1_000 * offset for offset in offsets]
    return frames.encode(header, page_columns(names, offset=offsets, time=times))


@pytest.fixture
def acceptor() -> Acceptor:
    made = Acceptor(RECIPE, 0)
    assert isinstance(made.accept(0, frame(5, [5, 6, 8], first=True), NOW), AcceptedPages)
    return made


def offsets_of(result: AcceptedPages | IgnoreReason) -> list[int]:
    assert isinstance(result, AcceptedPages)
    return result.columns.offset.tolist()


def test_the_first_frame_begins_the_partition_where_reading_began(acceptor) -> None:
    assert acceptor.positions == {("T", 0): 9}
    assert (acceptor.next_frame, acceptor.ordinal) == (1, 3)


def test_pages_below_the_position_are_passed_over_and_the_rest_counts(acceptor) -> None:
    result = acceptor.accept(1, frame(6, [6, 8, 9, 12], to=14), NOW)
    assert offsets_of(result) == [9, 12]
    assert result.columns.id_list() == ["page9", "page12"]
    assert (result.ordinal, acceptor.positions["T", 0]) == (3, 14)


def test_a_frame_written_twice_changes_nothing_but_the_next_frame(acceptor) -> None:
    before = (acceptor.ordinal, acceptor.digest, dict(acceptor.positions))
    assert acceptor.accept(1, frame(5, [5, 6, 8], first=True), NOW) is IgnoreReason.REPEATED
    assert (acceptor.ordinal, acceptor.digest, dict(acceptor.positions)) == before
    assert acceptor.next_frame == 2


def test_a_frame_behind_a_gap_is_ignored_whole_until_the_gap_is_filled(acceptor) -> None:
    assert acceptor.accept(1, frame(20, [20]), NOW) is IgnoreReason.GAP
    assert acceptor.gaps == {("T", 0): 20}
    assert offsets_of(acceptor.accept(2, frame(9, [9, 20]), NOW)) == [9, 20]
    assert acceptor.gaps == {}


def test_a_gap_closes_once_the_position_reaches_its_furthest_frame(acceptor) -> None:
    for offset, start in enumerate([30, 20], 1):
        assert acceptor.accept(offset, frame(start, [start]), NOW) is IgnoreReason.GAP
    acceptor.accept(3, frame(9, [], to=29, lost=True), NOW)
    assert acceptor.gaps == {("T", 0): 30}
    acceptor.accept(4, frame(29, [], to=30, lost=True), NOW)
    assert acceptor.gaps == {}


def test_a_first_frame_without_pages_begins_its_partition(acceptor) -> None:
    assert offsets_of(acceptor.accept(1, frame(5, [], to=5, partition=1, first=True), NOW)) == []
    assert offsets_of(acceptor.accept(2, frame(5, [5], partition=1), NOW)) == [5]


def test_a_partition_without_a_position_begins_only_with_a_first_frame_and_is_a_gap_till_then(acceptor) -> None:
    assert acceptor.accept(1, frame(0, [0], partition=1), NOW) is IgnoreReason.UNBEGUN
    assert acceptor.gaps == {("T", 1): 0}
    assert offsets_of(acceptor.accept(2, frame(0, [0, 1], partition=1, first=True), NOW)) == [0, 1]
    assert acceptor.gaps == {}


def test_a_recreated_topic_begins_again(acceptor) -> None:
    assert offsets_of(acceptor.accept(1, frame(0, [0], topic_id="U", first=True), NOW)) == [0]


def test_a_lost_frame_moves_the_position_without_a_page(acceptor) -> None:
    result = acceptor.accept(1, frame(9, [], to=50, lost=True), NOW)
    assert offsets_of(result) == []
    assert (acceptor.positions["T", 0], acceptor.ordinal) == (50, 3)


def test_page_time_is_capped_by_the_frames_append_time(acceptor) -> None:
    result = acceptor.accept(1, frame(9, [9, 10, 11]), NOW)
    assert result.time.tolist() == [9_000, 10_000, 10_000]


def test_frames_of_another_recipe_and_damaged_frames_are_ignored(acceptor) -> None:
    assert acceptor.accept(1, frame(9, [9], recipe="ffffffff"), NOW) is IgnoreReason.RECIPE
    assert acceptor.accept(2, frame(9, [9])[:-1], NOW) is IgnoreReason.DAMAGED
    assert acceptor.accept(3, b"", NOW) is IgnoreReason.DAMAGED


def test_the_digest_tells_two_logs_apart(acceptor) -> None:
    other = Acceptor(RECIPE, 0)
    other.accept(0, frame(5, [5, 6, 7], first=True), NOW)
    assert other.digest != acceptor.digest


def test_a_gap_of_a_deleted_topic_ends_when_the_new_one_begins(acceptor) -> None:
    assert acceptor.accept(1, frame(20, [20]), NOW) is IgnoreReason.GAP
    assert acceptor.accept(2, frame(7, [7], topic_id="U"), NOW) is IgnoreReason.UNBEGUN
    assert acceptor.gaps == {("T", 0): 20, ("U", 0): 7}
    assert offsets_of(acceptor.accept(3, frame(0, [0, 1], topic_id="U", first=True), NOW)) == [0, 1]
    assert acceptor.gaps == {("U", 0): 7}


def test_late_frames_of_a_deleted_topic_open_no_gap_but_frames_of_the_new_topic_do(acceptor) -> None:
    acceptor.accept(1, frame(0, [0, 1], topic_id="U", first=True), NOW)
    assert acceptor.accept(2, frame(20, [20]), NOW) is IgnoreReason.GAP
    assert acceptor.gaps == {}
    assert acceptor.accept(3, frame(9, [9], topic_id="U"), NOW) is IgnoreReason.GAP
    assert acceptor.gaps == {("U", 0): 9}


def test_a_late_whole_frame_of_a_deleted_topic_hides_no_gap_of_the_new_one(acceptor) -> None:
    acceptor.accept(1, frame(0, [0, 1], topic_id="U", first=True), NOW)
    assert offsets_of(acceptor.accept(2, frame(9, [9, 10]), NOW)) == [9, 10]
    assert acceptor.accept(3, frame(20, [20], topic_id="U"), NOW) is IgnoreReason.GAP
    assert acceptor.gaps == {("U", 0): 20}
    assert acceptor.accept(4, frame(30, [30]), NOW) is IgnoreReason.GAP
    assert acceptor.gaps == {("U", 0): 20}


def test_a_snapshot_keeps_the_order_in_which_topics_began() -> None:
    state = JudgeState(make_policy(preset("default"), RECIPE))
    state.acceptor.positions = {("z", 0): 1, ("a", 0): 2}
    assert list(restore_acceptor(state.facts("log"), "log").positions) == [("z", 0), ("a", 0)]
    state.close()


FACTS = JudgeState(make_policy(preset("default"), RECIPE)).facts("a log")


@pytest.mark.parametrize(
    "odd",
    [
        {"ordinal": -1},
        {"frame": 2**63},
        {"live_pages": -5},
        {"digest": "no number"},
        {"digest": "00000000deadbee"},
        {"positions": [("T", 0, -3)]},
        {"gaps": [("T", -1, 3)]},
        {"stream_time": 2**63 - 1},
        {"shards": 0},
    ],
)
def test_facts_that_no_judge_has_written_are_damage(odd: dict[str, object]) -> None:
    restore_acceptor(FACTS, "a log")
    with pytest.raises(StateDamaged, match="facts in the state's manifest do not fit"):
        restore_acceptor({**FACTS, **odd}, "a log")
