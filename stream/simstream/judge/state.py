"""Holds the whole state of a judge or of a shard: acceptor and live pages, as parts of a snapshot and back.

It is a function of the policy and of the frames in the order of the log. It can be written as parts and facts
(`judge/state_facts`), and restored from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.closing import Closing
from simstream.errors import WrongLog, WrongPolicy, WrongRecipe
from simstream.files.file_system import FileSystem
from simstream.files.sealed import SealedFile
from simstream.files.snapshot_part import Fact, SnapshotPart
from simstream.index.index import Index
from simstream.index.plan import divided_plan
from simstream.index.shard import WHOLE, Shard
from simstream.judge.acceptor import AcceptedPages, Acceptor, IgnoreReason
from simstream.judge.answer_book import AnswerBook
from simstream.judge.cluster_sizes import SizeAlert
from simstream.judge.expiry import Beat
from simstream.judge.live_state import LiveState
from simstream.judge.policy import Policy
from simstream.judge.resolver import Resolver
from simstream.judge.seen_keys import SeenKeys
from simstream.judge.shard_matcher import ShardMatcher
from simstream.judge.state_facts import StateFacts, check_log_id, state_facts, take_up
from simstream.model import FingerprintColumns, PageSource, Record, Verdict
from simstream.text.recipe import name_recipe
from simstream.wire import answer as wire
from simstream.wire import frame as frames
from simstream.wire.answer import MatchColumns, MatchLists

MAX_ANSWER_BYTES: Final = 4 << 20
"""A larger answer is divided between frames; the topic admits twice as much."""
MAX_MEMTABLE_ENTRIES = 4096
"""The most entries that every query scans before they are sealed."""


class LogState(Closing):
    """What one policy makes of a log: an acceptor, and the live pages that its accepted pages lead to."""

    def __init__(self, policy: Policy, live: LiveState, beat: Beat, shard: Shard = WHOLE) -> None:
        self.policy = policy
        self.beat = beat
        """Called between the steps of long work."""
        self.acceptor = Acceptor(policy.recipe_id, policy.sketch_words)
        self._live = live
        self._shard = shard
        """Its part of the tables. A judge without an index has shard 0 of all, and `answers` in its facts."""

    def accept(self, record: Record) -> AcceptedPages | IgnoreReason:
        """Return the accepted pages of the log's next record. Judge or answer all accepted pages, in order."""
        return self.acceptor.accept(record.offset, record.value or b"", record.timestamp)

    def answer_offsets(self) -> Sequence[int]:
        """Return where a judge without an index goes on to read answers; empty for all other states."""
        return ()

    def take_answer_offsets(self, offsets: Sequence[int]) -> None:
        """Take over what `answer_offsets` returned."""

    @property
    def answers_topic(self) -> str:
        """The unique id of the topic that `answer_offsets` belong to."""
        return ""

    @property
    def tables(self) -> int:
        """Into how many tables a matcher's shard is cut; 0 for all other states."""
        return 0

    def parts(self) -> list[SnapshotPart]:
        """Return the large parts for a snapshot, between two records."""
        return self._live.parts()

    def facts(self, log_id: str) -> dict[str, Fact]:
        """Return the other facts for a snapshot, between two records."""
        acceptor, policy, live = self.acceptor, self.policy, self._live
        facts = StateFacts(
            log_id=log_id,
            policy=policy.id,
            recipe=policy.recipe_id,
            sketch_bits=policy.sketch_bits,
            window_ms=policy.window_ms,
            link=policy.link,
            frame=acceptor.next_frame,
            ordinal=acceptor.ordinal,
            digest=acceptor.digest_hex,
            positions=[(*key, offset) for key, offset in acceptor.positions.items()],
            gaps=[(*key, offset) for key, offset in sorted(acceptor.gaps.items())],
            stream_time=live.stream_time,
            live_pages=live.live_pages,
            buckets=live.buckets_a_window,
            fingerprints=policy.fingerprints,
            sketch_lookups=policy.sketch_lookups,
            shard=self._shard.number,
            shards=self._shard.count,
            tables=self.tables,
            answers=tuple(self.answer_offsets()),
            answers_topic=self.answers_topic,
        )
        made: dict[str, Fact] = msgspec.to_builtins(facts)
        return made

    def restore(self, parts: Sequence[SnapshotPart], facts: Mapping[str, Any], log_id: str) -> None:
        """Take over what `parts` and `facts` returned, before the first page.

        Raises WrongLog, WrongRecipe, WrongPolicy, StateDamaged if it cannot belong to this judge.
        """
        known = state_facts(facts)
        check_log_id(known, log_id)
        if known.recipe != self.policy.recipe_id:
            raise WrongRecipe(
                f"the state has recipe {known.recipe}, this judge has recipe {self.policy.recipe_id}",
                f"use {name_recipe(known.recipe)}, or another folder for the state",
            )
        if known.policy != self.policy.id:
            raise WrongPolicy(
                f"the state has policy {known.policy}, this judge has policy {self.policy.id}",
                "use the same distance, similarity, window, link and sketch_lookups (a setting of the recipe), or "
                "another folder for the state",
            )
        self._check_shard(known)
        if known.answers_topic and known.answers_topic != self.answers_topic:
            raise WrongLog(
                "the state has read answers of another topic than this one "
                f"(unique ids {known.answers_topic} and {self.answers_topic})",
                "give the --matches with which the state was made; if that topic was deleted, or new shards take "
                "over, give judges and matchers empty folders",
            )
        take_up(self.acceptor, known)
        self.take_answer_offsets(known.answers)
        self._live.restore(parts, known)

    def _check_shard(self, known: StateFacts) -> None:
        """Raise WrongPolicy if a snapshot belongs to another shard, number or cut of shards, or kind of judge."""
        found = known.shard, known.shards, bool(known.answers)
        own = self._shard.number, self._shard.count, bool(self.answer_offsets())
        if found != own:
            raise WrongPolicy(
                f"the state belongs to {_describe_owner(*found)}, not to {_describe_owner(*own)}",
                "use the number of shards that the state was made with (--shards), or another folder for the state",
            )
        if known.tables and known.tables != self.tables:
            raise WrongPolicy(
                f"the state's shard is cut into {known.tables} tables, this version cuts it into {self.tables}",
                "give this matcher an empty folder, or use the version that made the state",
            )

    def read_from_disk(self, files: FileSystem, found: Iterable[SealedFile]) -> None:
        """Read immutable parts from these files from now on, and free their memory."""
        self._live.read_from_disk(files, found)

    def check(self) -> None:
        """Check that all its parts agree, for `state verify`. Raises StateDamaged. Cost: linear."""
        self._live.check()

    def close(self) -> None:
        """End the threads of merges and lookups, and close files."""
        self._live.close()


class JudgeState(LogState):
    """Acceptor, index and resolver of one policy. With `background` two threads do the merges.

    `memtable_limit` changes no verdict, as nothing in the index does. With a `book` of answers the index stays
    empty, and shards find the matches. `beat` is called about every tenth of a second while very many pages leave
    the window at once, and while a batch waits for merges.
    """

    def __init__(
        self,
        policy: Policy,
        alert: SizeAlert | None = None,
        *,
        background: bool = False,
        memtable_limit: int = MAX_MEMTABLE_ENTRIES,
        book: AnswerBook | None = None,
        beat: Beat = lambda: None,
    ) -> None:
        self.index = make_index(policy, background=background, memtable_limit=memtable_limit, beat=beat)
        self.resolver = Resolver(policy, self.index, alert, book=book, beat=beat)
        self._book = book
        super().__init__(policy, self.resolver, beat, Shard(0, book.shards) if book else WHOLE)

    @property
    def answers_topic(self) -> str:
        return self._book.topic_id if self._book else ""

    def answer_offsets(self) -> Sequence[int]:
        return self._book.offsets(self.acceptor.next_frame) if self._book else ()

    def take_answer_offsets(self, offsets: Sequence[int]) -> None:
        if self._book:
            self._book.begin(self.acceptor.next_frame, self.acceptor.ordinal, offsets)

    def judge(self, record: Record) -> list[Verdict] | IgnoreReason:
        """Return the verdicts of the log's next record, or why its frame is ignored."""
        accepted = self.accept(record)
        return self.resolve([accepted]) if isinstance(accepted, AcceptedPages) else accepted

    def resolve(self, accepted: Sequence[AcceptedPages]) -> list[Verdict]:
        """Return the verdicts of successive accepted frames, judged together: each batch costs about an extra
        ms."""
        if not accepted:
            return []
        sources = [
            PageSource(frame.header.topic, frame.header.partition, offset)
            for frame in accepted
            for offset in frame.columns.offset.tolist()
        ]
        columns, time = _join_frames(accepted)
        return self.resolver.judge(columns, time, accepted[0].ordinal, sources)


class ShardState(LogState):
    """Acceptor, index and matcher of one shard under one policy; see JudgeState.

    Raises SettingsError for link = "canonical".
    """

    def __init__(
        self,
        policy: Policy,
        shard: Shard,
        *,
        background: bool = False,
        memtable_limit: int = MAX_MEMTABLE_ENTRIES,
        beat: Beat = lambda: None,
    ) -> None:
        self.index = make_index(policy, shard, background=background, memtable_limit=memtable_limit, beat=beat)
        self.matcher = ShardMatcher(policy, self.index, shard, beat)
        super().__init__(policy, self.matcher, beat, shard)

    @property
    def tables(self) -> int:
        return divided_plan(self.policy.distance).tables

    def encode_answers(self, records: Sequence[Record], log_id: str) -> list[bytes]:
        """Return the bytes of the answers to the log's next records, usually of one."""
        acceptor, policy, shard = self.acceptor, self.policy, self._shard
        ordinal, accepted, digests, frame_pages = acceptor.ordinal, [], [], []
        for record in records:
            taken = self.accept(record)
            accepted += [taken] if isinstance(taken, AcceptedPages) else []
            frame_pages.append(len(taken.columns) if isinstance(taken, AcceptedPages) else 0)
            digests.append(acceptor.digest.to_bytes(8, "little"))
        header = wire.AnswerHeader(
            log_id=log_id,
            policy=policy.id,
            shard=shard.number,
            shards=shard.count,
            tables=self.tables,
            frame=records[0].offset,
            to_frame=acceptor.next_frame,
            ordinal=ordinal,
            pages=acceptor.ordinal - ordinal,
            digests=b"".join(digests),
        )
        return wire.encode_within(header, self.answer(accepted), frame_pages, MAX_ANSWER_BYTES)

    def take_in(self, records: Sequence[Record], seen: SeenKeys) -> None:
        """Take in the log's next records, whose answers nobody needs; see `ShardMatcher.take_in`."""
        accepted = [taken for record in records if isinstance(taken := self.accept(record), AcceptedPages)]
        if accepted:
            columns, time = _join_frames(accepted)
            self.matcher.take_in(columns, time, accepted[0].ordinal, seen)

    def answer(self, accepted: Sequence[AcceptedPages]) -> MatchColumns:
        """Return the matches of successive accepted frames; a page's place counts from the first page."""
        if not accepted:
            return MatchLists().columns()
        columns, time = _join_frames(accepted)
        return self.matcher.answer(columns, time, accepted[0].ordinal)


def _join_frames(accepted: Sequence[AcceptedPages]) -> tuple[FingerprintColumns, NDArray[np.int64]]:
    """Return the pages of successive frames, and their accepted times."""
    time = accepted[0].time if len(accepted) == 1 else np.concatenate([frame.time for frame in accepted])
    return frames.join([frame.columns for frame in accepted]), time


def _describe_owner(shard: int, shards: int, answered: bool) -> str:
    """Return whose state a snapshot is."""
    if answered:
        return f"a judge with {shards} shards on matchers"
    return "a judge with its own index" if shards == 1 else f"shard {shard} of {shards}"


def make_index(
    policy: Policy,
    shard: Shard = WHOLE,
    *,
    background: bool = False,
    memtable_limit: int = MAX_MEMTABLE_ENTRIES,
    beat: Beat = lambda: None,
) -> Index:
    """Return an empty index for this policy, or for one shard of it."""
    return Index(
        None,
        policy.sketch_words,
        *policy.limits,
        memtable_limit,
        policy.short_limits,
        further_draws=policy.lookups - 1,
        further_fingerprints=policy.fingerprints - 1,
        shard=shard,
        background=background,
        beat=beat,
    )
