"""A judge whose index is divided among shards, all in one process: what matchers and judge do, without a log."""

from __future__ import annotations

from collections.abc import Sequence

from simstream.index.plan import divided_plan
from simstream.index.shard import Shard
from simstream.judge.acceptor import AcceptedPages
from simstream.judge.answer_book import AnswerBook
from simstream.judge.policy import Policy
from simstream.judge.state import JudgeState, ShardState
from simstream.model import Record, Verdict

LOG_ID = "L"


def answer(state: ShardState, records: Sequence[Record]) -> bytes:
    """The answer of a shard to successive frames."""
    [data] = state.encode_answers(records, LOG_ID)
    return data


class ShardedJudge:
    """So many shards, and a judge with a book of their answers."""

    def __init__(self, policy: Policy, shards: int, memtable_limit: int = 8) -> None:
        self.policy, self.limit = policy, memtable_limit
        self.book = AnswerBook(LOG_ID, policy.id, shards, divided_plan(policy.distance).tables)
        self.book.begin(0, 0, [0] * shards)
        self.judge = JudgeState(policy, book=self.book, memtable_limit=memtable_limit)
        self.shards = [
            ShardState(policy, Shard(number, shards), memtable_limit=memtable_limit) for number in range(shards)
        ]
        self.offsets = [0] * shards
        self.answered_bytes = 0
        self.lost_states = 0

    def rebuild(
        self, number: int, log: Sequence[Record], together: int, pages: int, answered: Sequence[Record] = ()
    ) -> None:
        """Replace a shard by one that has lost its state: it takes in the whole log, `together` frames at a time.

        It has answered the frames `answered` before these, and expects `pages` pages.
        """
        self.shards[number].close()
        state = ShardState(self.policy, Shard(number, len(self.shards)), memtable_limit=self.limit)
        for record in answered:
            answer(state, [record])
        seen = state.matcher.collect_keys(pages)
        for at in range(0, len(log), together):
            state.take_in(log[at : at + together], seen)
        state.check()
        self.shards[number] = state
        self.lost_states += 1

    def take(self, records: Sequence[Record]) -> list[Verdict]:
        """Let every shard answer successive frames, and judge them together."""
        for number, state in enumerate(self.shards):
            data = answer(state, records)
            self.answered_bytes += len(data)
            assert self.book.add(number, self.offsets[number], data) is None
            self.offsets[number] += 1
        assert self.book.answered == records[-1].offset + 1
        accepted = []
        for record in records:
            taken = self.judge.accept(record)
            self.book.check_ended(self.judge.acceptor.next_frame, self.judge.acceptor.digest)
            if isinstance(taken, AcceptedPages):
                accepted.append(taken)
        self.book.check(self.judge.acceptor.next_frame, self.judge.acceptor.digest)
        verdicts = self.judge.resolve(accepted)
        self.book.used(self.judge.acceptor.next_frame)
        return verdicts

    def close(self) -> None:
        self.judge.close()
        for state in self.shards:
            state.close()
