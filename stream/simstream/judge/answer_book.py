"""Holds the answers of all shards to the frames that the judge has not judged yet.

A frame can be judged once every shard has answered it. Shards may be written by several matchers: whatever comes
twice or late is dropped, and the first answer counts, since a right answer says the same.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.errors import AnswerDamaged, WrongAnswer
from simstream.wire import answer as wire
from simstream.wire.answer import Answer, AnswerHeader

OWN: Final = ("log_id", "policy", "shards", "tables")
"""The fields of a header that must be as the judge's."""


OBJECT_BYTES: Final = 2048
"""What a decoded answer takes beside its bytes."""
ANSWER_ANEW: Final = (
    "check that matchers and judge read the same brokers and are of one version; if they do (were the brokers "
    "restored from an older copy?), bring up the shards anew under another --matches"
)


def few_shards(shards: Sequence[int]) -> str:
    """Return the first of these shards in words."""
    return ", ".join(map(str, shards[:8])) + (", …" if len(shards) > 8 else "")


class AnswerIssue(StrEnum):
    """Why an answer does not count."""

    DAMAGED = "damaged"
    OTHER = "other"
    """It is for another log, policy, number of shards, cut of the tables, or shard than its partition."""
    REPEATED = "repeated"
    """All of it was answered before."""
    GAP = "gap"
    """It begins behind the answered frames, so an answer between them is missing."""


class CountedAnswer(NamedTuple):
    """An answer that counts, from an ordinal on, with its offset in the partition."""

    offset: int
    begin: int
    size: int
    """Its bytes of memory, about."""
    answer: Answer

    @property
    def end(self) -> int:
        """The ordinal behind its last page."""
        return self.answer.header.ordinal + self.answer.header.pages


@dataclass(slots=True)
class ShardAnswers:
    """The answers of one shard in their order."""

    frame: int
    """The next frame to be answered."""
    ordinal: int
    """The first ordinal of that frame."""
    offset: int = 0
    """The next offset of the partition."""
    known: deque[CountedAnswer] = field(default_factory=deque)
    unchecked: deque[CountedAnswer] = field(default_factory=deque)
    """The answers with a digest that is not yet compared."""
    waiting_bytes: int = 0
    """The memory of all these answers."""

    def drop_unchecked(self, frame: int) -> None:
        """Drop the answers that have no digest at this frame or behind it."""
        while self.unchecked and self.unchecked[0].answer.header.to_frame < frame:
            self.unchecked.popleft()


class AnswerBook:
    """The answers of `shards` shards to one log under one policy, from a frame and an ordinal on.

    Memory: the answers that wait. The reader bounds them.
    """

    def __init__(self, log_id: str, policy_id: str, shards: int, tables: int, topic_id: str = "") -> None:
        self.shards = shards
        self.topic_id = topic_id
        """The unique id of the topic `matches`."""
        self._own = (log_id, policy_id, shards, tables)
        self._by_shard = [ShardAnswers(0, 0) for _ in range(shards)]
        self._ending: defaultdict[int, list[int]] = defaultdict(list)
        """The shards with an answer that ends at a frame, which is not yet checked there."""

    def begin(self, frame: int, ordinal: int, offsets: Sequence[int]) -> None:
        """Expect answers from this place of the log on, at these offsets of the partitions."""
        self._by_shard = [ShardAnswers(frame, ordinal, offset) for offset in offsets]
        self._ending.clear()

    def is_own(self, header: AnswerHeader) -> bool:
        """Whether an answer is for this log, policy, number of shards and cut of the tables."""
        return tuple(getattr(header, name) for name in OWN) == self._own

    def add(self, shard: int, offset: int, data: bytes) -> AnswerIssue | None:
        """Take the record at an offset of a shard's partition. Return why it does not count, or None."""
        mine = self._by_shard[shard]
        mine.offset = offset + 1
        try:
            found = wire.decode(data)
        except AnswerDamaged:
            return AnswerIssue.DAMAGED
        header = found.header
        if not self.is_own(header) or header.shard != shard:
            return AnswerIssue.OTHER
        if header.to_frame <= mine.frame:
            return AnswerIssue.REPEATED
        if header.frame > mine.frame:
            return AnswerIssue.GAP
        _check_ordinals(header, mine)
        counted = CountedAnswer(offset, mine.ordinal, len(data) + OBJECT_BYTES, found)
        mine.known.append(counted)
        mine.unchecked.append(counted)
        self._ending[header.to_frame].append(shard)
        mine.waiting_bytes += counted.size
        mine.frame, mine.ordinal = header.to_frame, header.ordinal + header.pages
        return None

    @property
    def answered(self) -> int:
        """The frame up to which every shard has answered."""
        return min(shard.frame for shard in self._by_shard)

    @property
    def frames(self) -> list[int]:
        """Per shard the frame up to which it has answered."""
        return [shard.frame for shard in self._by_shard]

    def ahead(self, most_bytes: int, frame: int, before: Collection[int] = ()) -> set[int]:
        """Return the shards that need not be read now: they have answered this frame, and hold so many bytes.

        A shard that was among them `before` stays until half of these answers are used.
        """
        return {
            number
            for number, shard in enumerate(self._by_shard)
            if shard.frame > frame and shard.waiting_bytes > (most_bytes // 2 if number in before else most_bytes)
        }

    def missing(self) -> list[int]:
        """Return the shards that have not answered the frame `answered`."""
        answered = self.answered
        return [number for number, shard in enumerate(self._by_shard) if shard.frame == answered]

    def offsets(self, frame: int) -> list[int]:
        """Return per shard the offset at which a judge that begins at this frame has to read."""
        return [
            next((known.offset for known in shard.known if known.answer.header.to_frame > frame), shard.offset)
            for shard in self._by_shard
        ]

    def check_ended(self, frame: int, digest: int) -> None:
        """Compare the digest of everything accepted below a frame with that of each answer that ends there.

        Call it for each frame in order. Raises WrongAnswer if an answer has another digest.
        """
        for number in self._ending.pop(frame, ()):
            self._check(number, frame, digest)

    def check(self, frame: int, digest: int) -> None:
        """Do what `check_ended` does, also for each answer that goes on, before pages below the frame are judged.

        A digest tells of all earlier frames too.
        """
        self._ending.pop(frame, None)
        for number in range(self.shards):
            self._check(number, frame, digest)

    def _check(self, number: int, frame: int, digest: int) -> None:
        shard = self._by_shard[number]
        shard.drop_unchecked(frame)
        if not shard.unchecked or shard.unchecked[0].answer.header.frame >= frame:
            return
        theirs = shard.unchecked[0].answer.header.digest(frame)
        if theirs != digest:
            raise WrongAnswer(
                f"at frame {frame} the log has the digest {digest:016x}, and shard {number} answers for "
                f"{theirs:016x} (offset {shard.unchecked[0].offset} of its partition)",
                ANSWER_ANEW,
            )

    def used(self, frame: int) -> None:
        """Drop the answers to frames below this one."""
        for shard in self._by_shard:
            while shard.known and shard.known[0].answer.header.to_frame <= frame:
                shard.waiting_bytes -= shard.known.popleft().size
            shard.drop_unchecked(frame)

    def of(self, first: int, end: int) -> Iterator[tuple[NDArray[np.int64], wire.MatchColumns]]:
        """Yield the matches of the pages with ordinals from `first` to `end`, from one answer at a time: their
        ordinals (m,), ascending, and the columns."""
        for shard in self._by_shard:
            for known in shard.known:
                begin, stop = max(first, known.begin), min(end, known.end)
                if known.begin >= end:
                    break
                if begin < stop:
                    matches = known.answer.matches
                    ordinals = known.answer.header.ordinal + matches.place.astype(np.int64)
                    low, high = np.searchsorted(ordinals, [begin, stop])
                    yield ordinals[low:high], matches.cut(int(low), int(high))


def _check_ordinals(header: AnswerHeader, mine: ShardAnswers) -> None:
    """Raise WrongAnswer if an answer's pages cannot follow those of the shard's earlier answers."""
    begins_right = header.frame < mine.frame or header.ordinal == mine.ordinal
    if not begins_right or header.ordinal > mine.ordinal or header.ordinal + header.pages < mine.ordinal:
        raise WrongAnswer(
            f"shard {header.shard} answers frames {header.frame} to {header.to_frame} from ordinal "
            f"{header.ordinal} on, but frame {mine.frame} begins with ordinal {mine.ordinal}",
            ANSWER_ANEW,
        )
