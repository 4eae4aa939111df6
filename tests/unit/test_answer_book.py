"""The book of a judge's answers: which count, in which order, and where a judge that starts again goes on."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.errors import WrongAnswer
from simstream.judge.answer_book import OBJECT_BYTES, AnswerBook, AnswerIssue, CountedAnswer
from simstream.wire import answer as wire
from simstream.wire.answer import AnswerHeader, MatchLists

FRAME_PAGES = 10
"""Each frame of these tests has so many pages."""
SHARDS = 2
DIGEST, OTHER = 0x0123456789ABCDEF, 2**64 - 1


def answer(shard: int, frame: int, to_frame: int, /, **changes: object) -> bytes:
    """What a shard says of some frames: every third ordinal matches a page that is named by that ordinal."""
    given: dict[str, object] = {
        "log_id": "L", "policy": "P", "shard": shard, "shards": SHARDS, "tables": 4, "frame": frame,
        "to_frame": to_frame, "ordinal": FRAME_PAGES * frame, "pages": FRAME_PAGES * (to_frame - frame),
        "digests": DIGEST.to_bytes(8, "little") * (to_frame - frame),
    } | changes  # fmt: skip
    header = AnswerHeader(**given)  # type: ignore[arg-type]
    lists = MatchLists()
    for ordinal in range(header.ordinal, header.ordinal + header.pages):
        if ordinal % 3 == 0:
            lists.add(ordinal - header.ordinal, identity(shard, ordinal), 1, 100, [])
    return wire.encode(header, lists.columns())


def identity(shard: int, ordinal: int) -> bytes:
    """The page that a shard names for an ordinal."""
    return b"%04d%012d" % (shard, ordinal)


def named(book: AnswerBook, first: int, end: int) -> list[tuple[int, bytes]]:
    """The pages that all shards name for these ordinals."""
    return sorted(
        (ordinal, best.tobytes())
        for ordinals, matches in book.of(first, end)
        for ordinal, best in zip(ordinals.tolist(), matches.best, strict=True)
    )


def expected(first: int, end: int) -> list[tuple[int, bytes]]:
    """What `named` returns if every shard has answered."""
    return sorted(
        (ordinal, identity(shard, ordinal)) for ordinal in range(first, end) if ordinal % 3 == 0 for shard in (0, 1)
    )


@pytest.fixture
def book() -> AnswerBook:
    """A book of two shards, from the first frame on."""
    made = AnswerBook("L", "P", SHARDS, 4)
    made.begin(0, 0, [0] * SHARDS)
    return made


def test_a_frame_is_answered_once_every_shard_has_answered_it(book: AnswerBook) -> None:
    assert book.add(0, 0, answer(0, 0, 3)) is None
    assert (book.answered, book.frames, book.missing()) == (0, [3, 0], [1])
    assert book.add(1, 0, answer(1, 0, 2)) is None
    assert (book.answered, book.frames, book.missing()) == (2, [3, 2], [1])
    assert book.add(1, 1, answer(1, 2, 4)) is None
    assert (book.answered, book.missing()) == (3, [0])
    assert named(book, 0, 30) == expected(0, 30)


def test_answers_that_come_twice_are_repeated(book: AnswerBook) -> None:
    assert book.add(0, 0, answer(0, 0, 2)) is None
    for offset, (frame, to_frame) in enumerate([(0, 2), (0, 1), (1, 2)], start=1):
        assert book.add(0, offset, answer(0, frame, to_frame)) is AnswerIssue.REPEATED
    assert book.frames == [2, 0]


def test_of_an_answer_that_begins_earlier_the_rest_counts(book: AnswerBook) -> None:
    for shard in range(SHARDS):
        assert book.add(shard, 0, answer(shard, 0, 2)) is None
        assert book.add(shard, 1, answer(shard, 1, 5)) is None
    assert book.answered == 5
    assert named(book, 0, 50) == expected(0, 50)


def test_an_answer_behind_a_gap_is_ignored_until_the_gap_is_filled(book: AnswerBook) -> None:
    assert book.add(0, 0, answer(0, 1, 2)) is AnswerIssue.GAP
    assert book.frames == [0, 0]
    assert book.add(0, 1, answer(0, 0, 1)) is None
    assert book.add(0, 2, answer(0, 1, 2)) is None
    assert book.frames == [2, 0]


@pytest.mark.parametrize(
    "changes",
    [{"log_id": "M"}, {"policy": "Q"}, {"shards": 4}, {"tables": 5}, {"shard": 1}],
    ids=lambda changes: next(iter(changes)),
)
def test_answers_to_something_else_are_ignored(book: AnswerBook, changes: dict[str, object]) -> None:
    assert book.add(0, 0, answer(0, 0, 1, **changes)) is AnswerIssue.OTHER
    assert book.frames == [0, 0]


def test_bytes_that_are_no_answer_are_ignored(book: AnswerBook) -> None:
    data = answer(0, 0, 1)
    for offset, damaged in enumerate([b"", data[:-1], data[:-1] + bytes([data[-1] ^ 1]), b"x" * 99]):
        assert book.add(0, offset, damaged) is AnswerIssue.DAMAGED
    assert book.add(0, 9, data) is None


@pytest.mark.parametrize(
    ("frame", "to_frame", "changes"),
    [(2, 3, {"ordinal": 21}), (2, 3, {"ordinal": 19}), (1, 3, {"ordinal": 21, "pages": 9}), (0, 3, {"pages": 19})],
    ids=[
        "a page too late",
        "a page too early",
        "an overlap that begins too late",
        "an overlap that ends too early",
    ],
)
def test_pages_that_cannot_follow_are_a_wrong_answer(
    book: AnswerBook, frame: int, to_frame: int, changes: dict[str, object]
) -> None:
    assert book.add(0, 0, answer(0, 0, 2)) is None
    with pytest.raises(WrongAnswer, match="frame 2 begins with ordinal 20"):
        book.add(0, 1, answer(0, frame, to_frame, **changes))


def test_a_wrong_digest_is_a_wrong_answer_that_names_the_record(book: AnswerBook) -> None:
    assert book.add(0, 0, answer(0, 0, 1)) is None
    assert book.add(1, 5, answer(1, 0, 1, digests=OTHER.to_bytes(8, "little"))) is None
    with pytest.raises(WrongAnswer, match=r"shard 1 answers for f{16} \(offset 5 of its partition\)"):
        book.check(1, DIGEST)


@pytest.mark.parametrize("wrong", range(4))
def test_each_frame_of_an_answer_is_checked_before_it_is_judged(book: AnswerBook, wrong: int) -> None:
    """The answer of a shard to a log whose later frames are other ones must not decide any verdict on them."""
    digests = [OTHER if number >= wrong else DIGEST for number in range(4)]
    book.add(0, 0, answer(0, 0, 2))
    book.add(0, 1, answer(0, 1, 4))
    book.add(1, 0, answer(1, 0, 4, digests=b"".join(digest.to_bytes(8, "little") for digest in digests)))
    for frame in range(1, wrong + 1):
        book.check(frame, DIGEST)
        book.used(frame)
    with pytest.raises(WrongAnswer, match=f"at frame {wrong + 1} the log has the digest"):
        book.check(wrong + 1, DIGEST)


def test_between_two_batches_only_answers_that_end_are_checked(
    book: AnswerBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shard, step in enumerate((5, 20)):
        for offset, frame in enumerate(range(0, 20, step)):
            assert book.add(shard, offset, answer(shard, frame, frame + step)) is None
    checked, digest = [], AnswerHeader.digest

    def noted(header: AnswerHeader, frame: int) -> int:
        checked.append((header.shard, frame))
        return digest(header, frame)

    monkeypatch.setattr(AnswerHeader, "digest", noted)
    for frame in range(1, 18):
        book.check_ended(frame, DIGEST)
    assert checked == [(0, 5), (0, 10), (0, 15)]
    book.check(17, DIGEST)
    assert checked[3:] == [(0, 17), (1, 17)]


def test_an_answer_that_ends_within_a_batch_is_checked_beside_a_right_one_behind_it(book: AnswerBook) -> None:
    assert book.add(0, 0, answer(0, 0, 1, digests=OTHER.to_bytes(8, "little"))) is None
    assert book.add(0, 1, answer(0, 1, 3)) is None
    with pytest.raises(WrongAnswer, match=r"shard 0 answers for f{16} \(offset 0"):
        book.check_ended(1, DIGEST)


def test_an_answer_without_a_digest_for_each_frame_is_damaged(book: AnswerBook) -> None:
    """So no answer reaches further than its own bytes."""
    assert book.add(0, 0, answer(0, 0, 1, to_frame=2**62)) is AnswerIssue.DAMAGED
    assert book.add(0, 1, answer(0, 0, 1)) is None


def test_used_answers_are_dropped_and_their_bytes_forgotten(book: AnswerBook) -> None:
    first, second = answer(0, 0, 2), answer(0, 2, 4)
    book.add(0, 0, first)
    book.add(0, 1, second)
    both = len(first) + len(second) + 2 * OBJECT_BYTES
    assert book.ahead(both - 1, 0) == {0}
    assert book.ahead(both, 0) == set()
    book.used(1)  # a part of the first answer is still needed
    assert book.ahead(both - 1, 1) == {0}
    book.used(2)
    assert book.ahead(len(first) + OBJECT_BYTES, 2) == set()
    assert book.ahead(len(second) + OBJECT_BYTES - 1, 2) == {0}
    book.used(4)
    assert book.ahead(0, 4) == set()


def test_a_judge_that_checks_no_digest_keeps_no_answers() -> None:
    book = AnswerBook("L", "P", SHARDS, 4)
    book.begin(0, 0, [0] * SHARDS)
    kept = []
    for frame in range(5):
        assert book.add(0, frame, answer(0, frame, frame + 1)) is None
        book.used(frame + 1)
        kept.append(sum(type(each) is CountedAnswer for each in gc.get_objects()))
    assert max(kept) == kept[0]


def test_a_shard_that_has_not_answered_the_next_frame_is_never_ahead(book: AnswerBook) -> None:
    book.add(0, 0, answer(0, 0, 1))
    book.add(1, 0, answer(1, 0, 3))
    assert book.ahead(0, 0) == {0, 1}
    assert book.ahead(0, 1) == {1}
    assert book.ahead(0, 3) == set()


def test_a_shard_that_was_ahead_stays_so_until_half_of_its_answers_are_used(book: AnswerBook) -> None:
    answers = [answer(0, frame, frame + 1) for frame in range(5)]
    for offset, data in enumerate(answers):
        book.add(0, offset, data)
    share = sum(OBJECT_BYTES + len(data) for data in answers)
    assert book.ahead(share, 0) == set()
    book.used(1)
    assert book.ahead(share, 1, before=[0]) == {0}
    book.used(4)
    assert book.ahead(share, 4, before=[0]) == set()


def test_a_judge_that_starts_again_reads_from_the_answer_to_its_next_frame(book: AnswerBook) -> None:
    for offset, (frame, to_frame) in enumerate([(0, 2), (0, 1), (2, 5), (5, 6)]):
        book.add(0, offset, answer(0, frame, to_frame))
    book.add(1, 0, answer(1, 0, 4))
    assert book.offsets(0) == [0, 0]
    assert book.offsets(1) == [0, 0]
    assert book.offsets(2) == [2, 0]
    book.used(2)
    assert book.offsets(2) == [2, 0]
    assert book.offsets(4) == [2, 1]
    assert book.offsets(6) == [4, 1]


@given(st.data())
def test_a_judge_that_goes_on_from_any_offsets_misses_no_match(data: st.DataObject) -> None:
    """Two matchers answer the same frames in other parts, and a judge starts again in between."""
    frames = 12
    logs = [data.draw(records(shard, frames)) for shard in range(SHARDS)]
    book = AnswerBook("L", "P", SHARDS, 4)
    book.begin(0, 0, [0] * SHARDS)
    for shard, log in enumerate(logs):
        for offset, value in enumerate(log[: data.draw(st.integers(0, len(log)))]):
            book.add(shard, offset, value)
    frame = data.draw(st.integers(0, book.answered))
    assert named(book, 0, FRAME_PAGES * frame) == expected(0, FRAME_PAGES * frame)
    book.used(frame)
    offsets = book.offsets(frame)
    again = AnswerBook("L", "P", SHARDS, 4)
    again.begin(frame, FRAME_PAGES * frame, offsets)
    for shard, log in enumerate(logs):
        for offset in range(offsets[shard], len(log)):
            issue = again.add(shard, offset, log[offset])
            assert issue in (None, AnswerIssue.REPEATED)
    assert again.answered == frames
    begin, end = FRAME_PAGES * frame, FRAME_PAGES * frames
    assert named(again, begin, end) == expected(begin, end)
    assert again.offsets(frames) == [len(log) for log in logs]


@st.composite
def records(draw: st.DrawFn, shard: int, frames: int) -> list[bytes]:
    """The partition of a shard that two matchers answer, each in parts of its own and in its own time."""
    parts = []
    for _ in range(2):
        cuts = sorted(draw(st.sets(st.integers(1, frames - 1), max_size=4)))
        parts.append([answer(shard, *pair) for pair in pairwise([0, *cuts, frames])])
    order = draw(st.permutations([0] * len(parts[0]) + [1] * len(parts[1])))
    return [parts[which].pop(0) for which in order]
