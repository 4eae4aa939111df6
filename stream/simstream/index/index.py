"""Adds, releases and finds entries within a distance whose sketches agree: the index's public class.

It is log-structured. New entries go into a memtable, which every query scans. A full memtable is sealed into sorted
segments with permuted tables, one for each bucket. Segments of a bucket are merged in geometric sizes, without
released entries.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.closing import Closing
from simstream.errors import SettingsError, StateDamaged
from simstream.files.failures import START_OVER
from simstream.files.snapshot_part import SnapshotPart
from simstream.index.answers import ONE_THREAD, SearchPart, answer, spread
from simstream.index.crowds import EntryCrowd, EntryCrowds
from simstream.index.entry_numbers import EntryNumbers
from simstream.index.fresh_entries import MEMTABLE, FreshEntries, MemtableFacts, as_numbers
from simstream.index.keys import Flags, KeyColumns, MatchRule, frozen
from simstream.index.lookup_threads import LookupThreads
from simstream.index.matches import Matches
from simstream.index.memtable import Memtable
from simstream.index.merge_worker import BackgroundWorker
from simstream.index.packed import TableSize
from simstream.index.plan import Plan
from simstream.index.segment import KIND, EntryRun, Segment, SegmentBuild
from simstream.index.segment_shelf import SegmentShelf
from simstream.index.shard import WHOLE, Shard
from simstream.kernels.index.entry_numbers import NUMBER_MASK
from simstream.kernels.judge.crowd import CrowdPage
from simstream.memory import ArrayRoom
from simstream.model import U64, MatchLimits

DEFAULT_MEMTABLE_ENTRIES = 4096
MAX_MATCHES = 1_000_000
MAX_MEMTABLE_ENTRIES = 1 << 24


class CrowdedAnswer(NamedTuple):
    """All entries near a crowded query, each in at least one of these crowds or matches."""

    crowds: list[EntryCrowd]
    matches: list[tuple[Matches, int]]
    """Each with the number of candidates."""


class Index(Closing):
    """Entries under numbers that the caller gives, and exact search among the live ones.

    With `plan` None each segment takes the cheapest complete plan for its size; no plan changes an answer.
    `sketch_words` S may be 0. The *draws* of an entry are its fingerprint and the first `further_draws` columns of
    its sketches. It is near if any of its draws is within the distance. The first `further_fingerprints` columns
    are not part of the sketch. `distance` is 0 to 16. `agreement` is the least number of equal sketch bits; it says
    nothing without a sketch. `short` is the limit of a pair with a short page, at least as strict as the others. If
    it is None, no page counts as short; the `short` arguments are ignored.

    With a `shard` only prefixes whose leading byte is in the range of the shard are looked up. All shards together
    find every near entry if each shard has the entries that it owns (`Shard.owns`). A shard may also report near
    entries that it does not own.

    With `background` two threads do the merges, and `close` ends them. Otherwise `add`, `release` and `settle` do
    them, which then may take 0.3 us a merged entry. `index/merge` says how much memory a merge takes. `beat` is
    called about every tenth of a second while a call waits for merges.

    One thread at a time may call it. Answers depend on the entries alone: not on the plan, `memtable_limit` or the
    time of merges. Only the result of `dropped` depends on these. Raises SettingsError for numbers out of range, or
    a plan that is not complete for the distance.
    """

    KINDS: ClassVar[frozenset[str]] = frozenset({KIND, MEMTABLE})
    """The kinds of its parts in a snapshot."""

    def __init__(
        self,
        plan: Plan | None,
        sketch_words: int,
        distance: int,
        agreement: int,
        memtable_limit: int = DEFAULT_MEMTABLE_ENTRIES,
        short: MatchLimits | None = None,
        *,
        further_draws: int = 0,
        further_fingerprints: int = 0,
        shard: Shard = WHOLE,
        background: bool = False,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._rule = MatchRule(
            sketch_words, MatchLimits(distance, agreement), short, further_draws, further_fingerprints
        )
        if not 1 <= memtable_limit <= MAX_MEMTABLE_ENTRIES:
            raise SettingsError(
                f"a memtable of {memtable_limit} is out of range", f"give 1 to {MAX_MEMTABLE_ENTRIES}"
            )
        if plan is not None:
            plan.flips_for(distance)
        self.sketch_words = sketch_words
        """S: the 64-bit words of the column `sketch`: the further fingerprints, then the sketch."""
        self._memtable = Memtable(memtable_limit, sketch_words, distance)
        self._held = EntryNumbers()
        build = SegmentBuild(plan, distance, further_draws, shard)
        self._shelf = SegmentShelf(build, self._held, background, beat)
        if isinstance(self._shelf.worker, BackgroundWorker):
            weakref.finalize(self, self._shelf.worker.stop)
        draws = 1 + further_draws
        self._draws = range(draws)
        self._crowds = [EntryCrowds(distance, draw, draws) for draw in self._draws]
        self._threads = LookupThreads()
        self._may_divide = True
        """Whether the next batch may be divided: the last one had few matches."""
        self.candidates = 0
        """How many live entries within the distance queries have met, before the comparison of sketches."""
        self.rejected = 0
        """How many of these candidates the sketch or the strict limits rejected."""

    def __len__(self) -> int:
        return self._held.live

    @property
    def segments(self) -> int:
        """The number of segments."""
        return len(self._shelf.segments)

    @property
    def buckets(self) -> list[int]:
        """The buckets that have entries, ascending."""
        sealed = {segment.bucket for segment in self._shelf.segments.values()}
        return sorted(sealed.union(self._memtable.entries.buckets.tolist()))

    def look_up_by(self, threads: int) -> None:
        """Let `query_apart` divide large batches among so many threads once the index is large.

        No match depends on it. `Matches.done` may be smaller.
        """
        wanted = LookupThreads(threads)
        if wanted.count != self._threads.count:
            self._threads.close()
            self._threads = wanted

    def build_in(self, room: ArrayRoom) -> None:
        """Let the arrays of all further segments, and of merges, lie in `room`."""
        self._shelf.build_in(room)

    def add(
        self,
        entries: NDArray[np.uint32],
        fingerprints: U64,
        sketches: U64,
        short: Flags | None,
        buckets: NDArray[np.int64] | None,
    ) -> None:
        """Add n entries under numbers (n,) below 2^31, with fingerprints (n,), sketches (n, S), short (n,).

        With `short` None no entry is short; with `buckets` None all are in bucket 0. Two entries may have equal
        keys. Raises ValueError for a number that is in use or comes twice, or shapes that do not fit; then nothing
        is changed. Cost: about 0.1 us an entry, 0.3 us for sealing, and amortized some 2 us of merging, here or in
        the thread.
        """
        keys = self._rule.shaped(fingerprints, sketches, short)
        fresh = FreshEntries.of_keys(np.asarray(entries), keys, buckets)
        self._held.hold(fresh.rows & np.uint32(NUMBER_MASK))
        for by in self._crowds:
            by.add(fresh)
        if len(self._memtable) + len(fresh.rows) <= self._memtable.limit:
            self._memtable.append(fresh)
            return
        self._seal(fresh)
        self._shelf.settle()

    def query(
        self,
        fingerprints: U64,
        sketches: U64,
        short: Flags | None = None,
        limit: int = MAX_MATCHES,
        *,
        in_order: bool = True,
    ) -> Matches:
        """Return all live entries within the distance of each query (n,) whose sketches (n, S) agree enough.

        The strict limits hold if the query or the entry is short. It answers at least one query, and stops before a
        query that would bring more than `limit` matches in total. Call it again with the rest, from `done` on. With
        `in_order` a query's matches are ordered by entry number, which costs .1 us a match. Raises the error of a
        merge in the background. Memory: at most about 40 bytes x `limit` for each of the few segments, or more if a
        single query has more matches.
        """
        self._shelf.raise_failure()
        asked = self._rule.shaped(fingerprints, sketches, short)
        parts = self._sources(self._draws), self._held.released, self._rule, asked
        matches, candidates = answer(*parts, limit, in_order)
        self.count(candidates, len(matches.entry))
        return matches

    def query_apart(self, fingerprints: U64, sketches: U64, short: Flags | None = None) -> Matches:
        """Do what `query` does, without an order and without the crowded queries. Ask `query_crowded` for each
        of these.

        A crowded query has very many matches or candidates, or lies within a crowd. Which queries are crowded is no
        part of an answer. `look_up_by` divides the others among threads.
        """
        return self._query_apart(self._sources(self._draws), self._rule.shaped(fingerprints, sketches, short))

    def query_equal(self, fingerprints: U64, sketches: U64, short: Flags | None = None) -> Matches:
        """Do what `query_apart` does, but find only matches with the fingerprint of the query. Cost: about a cache
        miss for each segment."""
        sources = [part.for_equal() for part in self._sources([0])]
        return self._query_apart(sources, self._rule.shaped(fingerprints, sketches, short))

    def _query_apart(self, sources: Sequence[SearchPart], asked: KeyColumns) -> Matches:
        self._shelf.raise_failure()
        crowded = np.logical_or.reduce([by.covering(asked) for by in self._crowds])
        others = np.flatnonzero(~crowded)
        if len(others) < len(crowded):
            asked = asked.at(others)
        parts = sources, self._held.released, self._rule, asked
        threads = self._threads if self._may_divide else ONE_THREAD
        matches, candidates = answer(*parts, MAX_MATCHES, False, uncrowded=True, threads=threads)
        # A divided answer ends where one thread has its part of the matches. What the others found is lost then.
        self._may_divide = matches.done == len(others) and len(matches.entry) <= MAX_MATCHES // self._threads.count
        self.count(candidates, len(matches.entry))
        return spread(matches, others, crowded)

    def query_crowded(self, fingerprint: U64, sketch: U64, short: Flags) -> CrowdedAnswer:
        """Return all near entries of one crowded query: fingerprint (1,), sketch (1, S), short (1,).

        For each draw these are a crowd, or matches. Counts no candidates. Cost: a few us and the
        matches; sometimes a new crowd, at .3 ns for each entry of the index.
        """
        asked, found = self._rule.shaped(fingerprint, sketch, short), CrowdedAnswer([], [])
        for by in self._crowds:
            if self._rule.further_draws and not by.covering(asked)[0]:  # it may be crowded by another draw alone
                few = self._answer_by(by.draw, asked, uncrowded=True)
                if not few[0].crowded[0]:
                    found.matches.append(few)
                    continue
            crowd = self.crowd(by.draw, int(asked.draw(by.draw)[0]))
            if crowd is None:
                found.matches.append(self._answer_by(by.draw, asked))
            else:
                found.crowds.append(crowd)
        return found

    def crowd(self, draw: int, fingerprint: int) -> EntryCrowd | None:
        """Return the crowd with all entries near a value of this draw, or None if there is no crowd yet.

        The crowd also has released entries, at most until numbers of such entries leave all parts.
        """
        by = self._crowds[draw]
        found = by.of(fingerprint)
        if found is None:
            parts: list[Segment | Memtable] = [*self._shelf.segments.values(), self._memtable]
            found = by.make(fingerprint, parts, len(self))
        return found

    def _answer_by(self, draw: int, asked: KeyColumns, uncrowded: bool = False) -> tuple[Matches, int]:
        """Answer queries by one draw alone, and count the candidates."""
        return answer(self._sources([draw]), self._held.released, self._rule, asked, MAX_MATCHES, False, uncrowded)

    def page(self, fingerprint: np.uint64, sketch: U64, short: bool, bucket: int) -> CrowdPage:
        """Return a page in the form that is compared with a crowd."""
        limits, strict = self._rule.limits, self._rule.short or self._rule.limits
        agreements = (limits.agreement, strict.agreement) if self._rule.has_sketch else (0, 0)
        told_apart = self._rule.short is not None
        limit = limits.distance, agreements[0], strict.distance, agreements[1]
        rule = self._rule
        return CrowdPage(
            fingerprint, sketch, rule.further_draws, rule.further_fingerprints, short, bucket, told_apart, *limit
        )

    def count(self, candidates: int, matches: int) -> None:
        """Count candidates and matches that were found elsewhere, as `query` does."""
        self.candidates += candidates
        self.rejected += candidates - matches

    @property
    def released(self) -> U64:
        """The bitmap of released numbers, 64 a word. It holds until numbers are added or given back."""
        return self._held.released

    def near(self, fingerprints: U64, further_fingerprints: U64) -> Matches:
        """Do what `query` does for pages whose sketches are not known: by their fingerprints alone.

        `further_fingerprints` (n, F) are the others of each page. The strict limits for short pages are ignored.
        """
        self._shelf.raise_failure()
        words, count = self.sketch_words, self._rule.further_fingerprints
        rule = MatchRule(words, MatchLimits(self._rule.limits.distance, 0), None, count, count)
        sketches = np.zeros((len(fingerprints), words), np.uint64)
        sketches[:, :count] = further_fingerprints
        asked = rule.shaped(fingerprints, sketches, None)
        return answer(self._sources(range(count + 1)), self._held.released, rule, asked, MAX_MATCHES, True)[0]

    def _sources(self, draws: Sequence[int]) -> list[SearchPart]:
        parts: list[Segment | Memtable] = sorted(self._shelf.segments.values(), key=len, reverse=True)
        return [part.search(draw) for part in (*parts, self._memtable) for draw in draws]

    def join(
        self, queries: KeyColumns, others: KeyColumns, limit: int = MAX_MATCHES, *, in_order: bool = True
    ) -> Matches:
        """Return the matches of queries (n,) among other keys (m,), by this index's rule; `entry` is the place in
        `others`. The index's entries play no part.

        For batches: it compares everything with everything. All `bucket`s are 0; `limit` as in `query`. Raises
        ValueError for shapes that do not fit. Cost: 0.1 ns a pair.
        """
        rule = self._rule
        asked, known = (
            rule.shaped(k.fingerprints, k.sketches, k.short if len(k.short) else None) for k in (queries, others)
        )
        count = len(known.fingerprints)
        memtable = Memtable(count, rule.sketch_words, rule.limits.distance)
        memtable.append(FreshEntries.of_keys(np.arange(count, dtype=np.uint32), known, None))
        nobody = np.zeros((count >> 6) + 1, np.uint64)
        return answer([memtable.search(draw) for draw in self._draws], nobody, rule, asked, limit, in_order)[0]

    def release(self, entries: NDArray[np.uint32], *, sweep: bool = True) -> None:
        """Remove entries: from answers now, from memory at a merge; then `dropped` returns their numbers.

        Without `sweep` call `sweep` later: if whole buckets are dropped first, they need no rewriting. Raises
        ValueError for a number that is not live or comes twice; then nothing is changed.
        """
        self._held.release(as_numbers(np.asarray(entries)))
        if sweep:
            self._shelf.sweep()

    def sweep(self) -> None:
        """Rewrite segments if more than half of all entries are dead."""
        self._shelf.sweep()

    def drop_buckets(self, below: int) -> None:
        """Drop the segments of buckets < `below`, and their numbers. All their entries must be released.

        Raises ValueError if one is live; then nothing is changed. Cost: 1 to 3 ns a dropped entry.
        """
        entries = self._memtable.entries
        old = entries.buckets < below
        self._shelf.drop_buckets(below, entries.rows[old])
        if old.any():
            kept = entries.where(~old)
            self._memtable.clear()
            self._memtable.append(kept)

    def dropped(self) -> NDArray[np.uint32]:
        """Return numbers that have left all parts, each once, ascending: they are free for other entries.

        If very many have left, the rest comes from later calls.
        """
        return np.sort(np.concatenate([np.empty(0, np.uint32), *self.dropped_slices()]))

    def dropped_slices(self) -> Iterator[NDArray[np.uint32]]:
        """Yield what `dropped` returns, at most 65,536 at a time and without an order.

        Crowds lose released entries as soon as numbers have left all parts, and not each time that some are given
        back: that costs up to 60 ns for each entry of a crowd.
        """
        if self._held.take_newly_dropped():
            for by in self._crowds:
                by.drop_released(self._held.released)
        yield from self._held.give_back()

    def settle(self) -> None:
        """Put merged segments in place, and start the merges that are due.

        Never waits, unless more than 32 segments of one bucket wait for their first merge. Raises the error of a
        failed merge; its segments stay as they were, for a later merge.
        """
        self._shelf.settle()

    def wait(self) -> None:
        """Wait until no work is left in the background. Raises what `settle` raises."""
        self._shelf.wait()

    def close(self) -> None:
        """End all threads; unfinished merges are dropped. All other methods may still be called."""
        try:
            self._shelf.worker.close()
        finally:
            self._threads.close()

    def parts(self) -> list[SnapshotPart]:
        """Return the whole index: each segment as an immutable part, and the changing part "memtable" with the
        released numbers.

        The changing part's arrays are views: they are valid until the next call that changes the index.
        """
        entries = self._memtable.entries
        arrays: dict[str, NDArray[Any]] = {
            **entries._asdict(),
            "released": self._held.used(),
            "dropped": self._held.dropped(),
        }
        rule, live, number = self._rule, self._held.live, self._shelf.next_number
        rest = self.segments, rule.limits.distance, self.sketch_words, rule.further_draws
        facts = msgspec.to_builtins(MemtableFacts(len(entries.rows), live, number, *rest))
        segments = [segment.part() for segment in self._shelf.segments.values()]
        return [*segments, SnapshotPart(MEMTABLE, MEMTABLE, facts, arrays, changes=True)]

    def use_mapped(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Use the arrays of a mapped file for a segment from now on. Ignored if the segment is gone.

        Raises StateDamaged if shapes or directories differ from the segment's.
        """
        self._shelf.use_mapped(name, arrays)

    def restore(self, parts: Iterable[SnapshotPart]) -> None:
        """Take over what `parts` returned, into an empty index with the same limits.

        Checks shapes, directories, counts, and that each number comes once; `check` and checksums cover the order
        within tables. Raises ValueError if this index is not empty, and StateDamaged; then it must not be used.
        Cost: 2 to 5 ns an entry.
        """
        if self._held.live or self._held.dead or self._shelf.segments:
            raise ValueError("restore needs an empty index")
        parts = list(parts)
        own = [part for part in parts if part.kind == MEMTABLE]
        if len(own) != 1:
            raise StateDamaged(f"the state has {len(own)} memtables, not one", START_OVER)
        facts = own[0].facts_as(MemtableFacts)
        fresh = FreshEntries.of_part(own[0], facts.count, self.sketch_words)
        segments = [Segment.of_part(part) for part in parts if part.kind == KIND]
        self._shelf.restore(segments, self.sketch_words, facts.segments, facts.next)
        columns = [*(segment.rows for segment in self._shelf.segments.values()), fresh.rows]
        arrays = own[0].arrays
        released = np.array(arrays["released"], np.uint64)
        wrong = self._held.restore(
            [frozen(rows, np.uint32) for rows in columns], released, np.array(arrays["dropped"], np.uint32)
        )
        if wrong or self._held.live != facts.live:
            raise StateDamaged(f"segments and memtable do not fit together: {wrong or 'counts'}", START_OVER)
        if len(fresh.rows) <= self._memtable.limit:
            self._memtable.append(fresh)
        else:
            self._seal(fresh)

    def check(self) -> None:
        """Check every order, count, directory and table; it builds every table again.

        Raises StateDamaged, which says what is wrong and where. Cost: about 0.3 us an entry, and the memory of the
        largest segment's tables once more.
        """
        for segment in self._shelf.segments.values():
            segment.check()
        columns = [*(segment.rows for segment in self._shelf.segments.values()), self._memtable.entries.rows]
        again = EntryNumbers()
        wrong = again.restore(columns, self._held.used(), self._held.dropped())
        if wrong or (again.live, again.dead) != (self._held.live, self._held.dead):
            raise StateDamaged(f"segments and memtable do not fit together: {wrong or 'counts'}", START_OVER)

    def live_entries(self) -> Iterator[tuple[NDArray[np.uint32], KeyColumns, NDArray[np.int64]]]:
        """Yield all live entries, part by part: numbers (n,), keys, buckets (n,). For checks. Cost: 0.1 us an
        entry."""
        for segment in self._shelf.segments.values():
            run = segment.run()
            yield self._live(
                FreshEntries(run.fingerprints, run.sketches, run.rows, np.full(len(run), segment.bucket))
            )
        yield self._live(self._memtable.entries)

    def _live(self, found: FreshEntries) -> tuple[NDArray[np.uint32], KeyColumns, NDArray[np.int64]]:
        numbers = found.rows & np.uint32(NUMBER_MASK)
        live = ~self._held.is_released(numbers)
        short = (found.rows[live] >> np.uint32(31)).astype(np.uint8)
        return numbers[live], KeyColumns(found.fingerprints[live], found.sketches[live], short), found.buckets[live]

    def nbytes(self) -> dict[str, int]:
        """Return the bytes held, in memory or mapped: "tables", "sketches", "rows", "memtable", "released"."""
        sizes = {"tables": 0, "sketches": 0, "rows": 0}
        for segment in self._shelf.segments.values():
            for part, size in segment.nbytes().items():
                sizes[part] += size
        return {**sizes, "memtable": self._memtable.nbytes(), "released": self._held.nbytes()}

    def by_table(self) -> dict[str, TableSize]:
        """Return the size of each table in all segments together; segments may have different numbers of tables."""
        found: dict[str, TableSize] = {}
        for segment in self._shelf.segments.values():
            for table, held in segment.by_table().items():
                before = found.get(table, TableSize(0, 0))
                found[table] = TableSize(before.entries + held.entries, before.bytes + held.bytes)
        return found

    def _seal(self, more: FreshEntries) -> None:
        """Make segments of the live entries of the memtable and more, one for each bucket."""
        both = self._memtable.entries.followed_by(more)
        self._memtable.clear()
        numbers = both.rows & np.uint32(NUMBER_MASK)
        dead = self._held.is_released(numbers)
        self._held.drop(numbers[dead])
        live = both.where(~dead)
        order = np.argsort(live.fingerprints, kind="stable")
        for bucket in np.unique(live.buckets).tolist():
            chosen = order[live.buckets[order] == bucket]
            run = EntryRun(live.fingerprints[chosen], live.rows[chosen], live.sketches[chosen])
            self._shelf.seal(bucket, run)
