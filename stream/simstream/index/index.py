"""The index's public class: add, release and query entries within a distance whose sketches agree.

Log-structured: new entries go into a memtable that every query scans; full, it is sealed into sorted segments
with permuted tables, one for each bucket; segments of a bucket are merged in geometric sizes, without what was
released.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from simstream.closing import Closing
from simstream.errors import SettingsError, StateDamaged
from simstream.files import SnapshotPart
from simstream.files.failures import START_OVER
from simstream.index import crowds
from simstream.index.answers import SearchPart, answer, spread
from simstream.index.crowds import EntryCrowd, EntryCrowds
from simstream.index.entry_numbers import EntryNumbers
from simstream.index.fresh_entries import MEMTABLE, FreshEntries, as_numbers, whole
from simstream.index.keys import Flags, KeyColumns, MatchRule, frozen
from simstream.index.matches import Matches
from simstream.index.memtable import Memtable
from simstream.index.merge_worker import BackgroundWorker
from simstream.index.packed import TableSize
from simstream.index.plan import Plan
from simstream.index.segment import KIND, EntryRun, Segment
from simstream.index.segment_shelf import SegmentShelf
from simstream.kernels.index.entry_numbers import NUMBER_MASK
from simstream.kernels.judge.crowd import CrowdPage
from simstream.model import U64, MatchLimits

DEFAULT_MEMTABLE_ENTRIES = 4096
MAX_MATCHES = 1_000_000
MAX_MEMTABLE_ENTRIES = 1 << 24


class Index(Closing):
    """Entries under numbers that the caller gives, and exact search among those that are live.

    `plan` None lets each segment take the cheapest complete plan for its size; no plan changes an answer.
    `sketch_words` S may be 0. `distance` is 0 to 16; `agreement` the least number of equal sketch bits, which
    means nothing where S is 0. `short`: what a pair of which one is short must keep to, at least as strict as the
    others; None: nobody is short, whatever the calls say.
    `background`: merges are done by a thread, ended by `close`; else by `add`, `release` and `settle`, which may
    then take 0.3 us an entry merged. What a merge holds in memory is said in `index/merge`.
    One thread at a time may call it. Answers depend on the entries alone: not on the plan, on `memtable_limit`, or
    on what was merged when; what `dropped` returns does depend on them.
    Errors: SettingsError for numbers out of range, or a plan that is not complete for the distance.
    """

    KINDS: ClassVar[frozenset[str]] = frozenset({KIND, MEMTABLE})
    """The kinds of its parts."""

    def __init__(
        self,
        plan: Plan | None,
        sketch_words: int,
        distance: int,
        agreement: int,
        memtable_limit: int = DEFAULT_MEMTABLE_ENTRIES,
        short: MatchLimits | None = None,
        *,
        background: bool = False,
    ) -> None:
        self._rule = MatchRule(sketch_words, MatchLimits(distance, agreement), short)
        if not 1 <= memtable_limit <= MAX_MEMTABLE_ENTRIES:
            raise SettingsError(
                f"a memtable of {memtable_limit} is out of range", f"give 1 to {MAX_MEMTABLE_ENTRIES}"
            )
        if plan is not None:
            plan.flips_for(distance)
        self.sketch_words = sketch_words
        """S: 64-bit words of each sketch."""
        self._memtable = Memtable(memtable_limit, sketch_words, distance)
        self._held = EntryNumbers()
        self._shelf = SegmentShelf(plan, distance, self._held, background)
        if isinstance(self._shelf.worker, BackgroundWorker):
            weakref.finalize(self, self._shelf.worker.stop)
        self._crowds = EntryCrowds(distance)
        self._given_back = False
        """Numbers may be those of other entries than in a crowd."""
        self.candidates = 0
        """Live entries within the distance that queries looked at, before their sketches were compared."""
        self.rejected = 0
        """Those of them that did not agree enough, or did not keep to the strict limits."""

    def __len__(self) -> int:
        return self._held.live

    @property
    def segments(self) -> int:
        """How many segments there are."""
        return len(self._shelf.segments)

    @property
    def buckets(self) -> list[int]:
        """The buckets that have entries, ascending."""
        sealed = {segment.bucket for segment in self._shelf.segments.values()}
        return sorted(sealed.union(self._memtable.entries.buckets.tolist()))

    def add(
        self,
        entries: NDArray[np.uint32],
        fingerprints: U64,
        sketches: U64,
        short: Flags | None,
        buckets: NDArray[np.int64] | None,
    ) -> None:
        """Add n entries under numbers (n,) below 2^31, with fingerprints (n,), sketches (n, S), short (n,).

        `short` None: none is; `buckets` (n,) None: all in bucket 0. Two entries may have equal keys.
        Cost: about 0.1 us an entry, and 0.3 us for sealing; amortized some 2 us of merging, here or in the thread.
        Errors: ValueError for a number that is in use or comes twice, or shapes that do not fit; nothing is
        changed then.
        """
        keys = self._rule.shaped(fingerprints, sketches, short)
        fresh = FreshEntries.of_keys(np.asarray(entries), keys, buckets)
        known = self._known_crowds()
        self._held.hold(fresh.rows & np.uint32(NUMBER_MASK))
        known.add(fresh)
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
        """All live entries within the distance of each query (n,) whose sketches (n, S) agree enough.

        Where the query or the entry is short the strict limits count. Stops before the query that would bring more
        than `limit` matches in total, but answers at least one: call again with the rest, from `done` on. A
        query's matches are ordered by entry number; not `in_order` they are not, which spares .1 us a match.
        Memory: at most about 40 bytes x `limit` for each of the few segments; more only for one query that has more
        matches than that.
        Errors: what a merge in the background raised.
        """
        self._shelf.raise_failure()
        asked = self._rule.shaped(fingerprints, sketches, short)
        matches, candidates = answer(self._sources(), self._held.released, self._rule, asked, limit, in_order)
        self.count(candidates, len(matches.entry))
        return matches

    def query_apart(self, fingerprints: U64, sketches: U64, short: Flags | None = None) -> Matches:
        """As `query` without the crowded queries, in no order. Ask `crowd` or `query` for each of these.

        Which queries are crowded is no part of an answer: they have very many candidates, or lie within a crowd.
        """
        self._shelf.raise_failure()
        asked = self._rule.shaped(fingerprints, sketches, short)
        crowded = self._known_crowds().covering(asked.fingerprints)
        others = np.flatnonzero(~crowded)
        if len(others) < len(crowded):
            own = asked.short[others] if len(asked.short) else asked.short
            asked = KeyColumns(
                *(frozen(c, c.dtype) for c in (asked.fingerprints[others], asked.sketches[others], own))
            )
        parts = self._sources(), self._held.released, self._rule, asked
        matches, candidates = answer(*parts, MAX_MATCHES, False, crowds.MAX_UNCROWDED_CANDIDATES)
        self.count(candidates, len(matches.entry))
        return spread(matches, others, crowded)

    def crowd(self, fingerprint: int) -> EntryCrowd | None:
        """Return the crowd with all entries within the distance of a query, or None if there is no crowd yet.

        It also has entries that were released, until their numbers are given back. Cost: a few us; now and then, of
        a new crowd, .3 ns for each entry of the index.
        """
        known = self._known_crowds()
        found = known.of(fingerprint)
        if found is None:
            parts: list[Segment | Memtable] = [*self._shelf.segments.values(), self._memtable]
            found = known.make(fingerprint, parts, len(self))
        return found

    def page(self, fingerprint: np.uint64, sketch: U64, short: bool, bucket: int) -> CrowdPage:
        """A page as it is compared with a crowd."""
        limits, strict = self._rule.limits, self._rule.short or self._rule.limits
        agreements = (limits.agreement, strict.agreement) if self.sketch_words else (0, 0)
        told_apart = self._rule.short is not None
        limit = limits.distance, agreements[0], strict.distance, agreements[1]
        return CrowdPage(fingerprint, sketch, short, bucket, told_apart, *limit)

    def count(self, candidates: int, matches: int) -> None:
        """Count what was found elsewhere, as `query` does."""
        self.candidates += candidates
        self.rejected += candidates - matches

    @property
    def released(self) -> U64:
        """Which numbers are released: 64 a word; of those in use, until numbers are added or given back."""
        return self._held.released

    def _known_crowds(self) -> EntryCrowds:
        """Without entries whose numbers were given back."""
        if self._given_back:
            self._given_back = False
            self._crowds.forget(self._held.held)
        return self._crowds

    def near(self, fingerprints: U64, limit: int = 1_000_000) -> Matches:
        """As `query`, but whatever the sketches say, and with no stricter limits for short pages."""
        self._shelf.raise_failure()
        words = self.sketch_words
        rule = MatchRule(words, MatchLimits(self._rule.limits.distance, 0))
        asked = rule.shaped(fingerprints, np.zeros((len(fingerprints), words), np.uint64), None)
        return answer(self._sources(), self._held.released, rule, asked, limit, True)[0]

    def _sources(self) -> list[SearchPart]:
        return [*sorted(self._shelf.segments.values(), key=len, reverse=True), self._memtable]

    def join(
        self, queries: KeyColumns, others: KeyColumns, limit: int = 1_000_000, *, in_order: bool = True
    ) -> Matches:
        """As the function `join`, by this index's limits; what is in the index plays no part."""
        return _join(self._rule, queries, others, limit, in_order)

    def release(self, entries: NDArray[np.uint32], *, sweep: bool = True) -> None:
        """These entries are gone: from answers now, from memory at a merge, and then come out of `dropped`.

        Where not `sweep`, call `sweep` later: whole buckets may be dropped first, which spares rewriting them.
        Errors: ValueError for a number that is not live or comes twice; nothing is changed then.
        """
        self._held.release(as_numbers(np.asarray(entries)))
        if sweep:
            self._shelf.sweep()

    def sweep(self) -> None:
        """Have segments rewritten if more than half of all entries are dead."""
        self._shelf.sweep()

    def drop_buckets(self, below: int) -> None:
        """All entries of buckets < `below` were released: their segments go at once, and their numbers.

        Cost: 1 to 3 ns an entry that goes. Errors: ValueError where one is live; nothing is changed then.
        """
        entries = self._memtable.entries
        old = entries.buckets < below
        self._shelf.drop_buckets(below, entries.rows[old])
        if old.any():
            kept = entries.where(~old)
            self._memtable.clear()
            self._memtable.append(kept)

    def dropped(self) -> NDArray[np.uint32]:
        """The numbers that no part holds any more since the last call, ascending: free for other entries."""
        return np.sort(np.concatenate([np.empty(0, np.uint32), *self.dropped_slices()]))

    def dropped_slices(self) -> Iterator[NDArray[np.uint32]]:
        """As `dropped`, at most 65,536 at a time and in no particular order; to be read to the end."""
        for numbers in self._held.give_back():
            self._given_back = True
            yield numbers

    def settle(self) -> None:
        """Swap in what has been merged in the background, and have merged what should be.

        Never waits, unless more than 32 segments of one bucket wait for their first merge.
        Errors: what a merge raised; the segments stay as they were, and are merged at another time.
        """
        self._shelf.settle()

    def wait(self) -> None:
        """Until no work is left in the background. Errors: as `settle`."""
        self._shelf.wait()

    def close(self) -> None:
        """End the thread; what it has not finished stays unmerged. Calling anything else afterwards is allowed."""
        self._shelf.worker.close()

    def parts(self) -> list[SnapshotPart]:
        """All there is: each segment as an immutable part, and a changing one, "memtable", with what is released.

        The changing one's arrays are views: they hold until the next call that changes the index.
        """
        entries = self._memtable.entries
        arrays: dict[str, NDArray[Any]] = {
            **entries._asdict(),
            "released": self._held.used(),
            "dropped": self._held.dropped(),
        }
        facts = {
            "count": len(entries.rows),
            "live": self._held.live,
            "next": self._shelf.next_number,
            "segments": self.segments,
            "distance": self._rule.limits.distance,
            "sketch_words": self.sketch_words,
        }
        segments = [segment.part() for segment in self._shelf.segments.values()]
        return [*segments, SnapshotPart(MEMTABLE, MEMTABLE, facts, arrays, changes=True)]

    def mapped(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """A segment's arrays now lie in a mapped file: use those. Ignored where the segment is gone.

        Errors: StateDamaged where they are not those of the segment, as far as shapes and directories tell.
        """
        self._shelf.mapped(name, arrays)

    def restore(self, parts: Iterable[SnapshotPart]) -> None:
        """Take over what `parts` gave, into an index that is empty and has the same limits.

        Looks at shapes, directories, counts, and that each number is there once: cost 2 to 5 ns an entry. The
        order within tables is left to `check` and to checksums.
        Errors: ValueError where this index is not empty; StateDamaged, and it must not be used then.
        """
        if self._held.live or self._held.dead or self._shelf.segments:
            raise ValueError("only an empty index can be restored")
        parts = list(parts)
        own = [part for part in parts if part.kind == MEMTABLE]
        if len(own) != 1:
            raise StateDamaged(f"the state has {len(own)} memtables, not one", START_OVER)
        fresh = FreshEntries.of_part(own[0], self.sketch_words)
        facts = own[0].facts
        segments = [Segment.of_part(part) for part in parts if part.kind == KIND]
        count, following = whole(facts, "segments"), whole(facts, "next")
        self._shelf.restore(segments, self.sketch_words, count, following)
        columns = [*(segment.rows for segment in self._shelf.segments.values()), fresh.rows]
        arrays = own[0].arrays
        released = np.array(arrays["released"], np.uint64)
        wrong = self._held.restore(
            [frozen(rows, np.uint32) for rows in columns], released, np.array(arrays["dropped"], np.uint32)
        )
        if wrong or self._held.live != facts.get("live"):
            raise StateDamaged(f"segments and memtable do not fit together: {wrong or 'counts'}", START_OVER)
        if len(fresh.rows) <= self._memtable.limit:
            self._memtable.append(fresh)
        else:
            self._seal(fresh)

    def check(self) -> None:
        """Whether every order, count, directory and table is what it should be; builds every table anew.

        Cost: about 0.3 us an entry, and the memory of the largest segment's tables once more.
        Errors: StateDamaged, which says what is wrong where.
        """
        for segment in self._shelf.segments.values():
            segment.check()
        columns = [*(segment.rows for segment in self._shelf.segments.values()), self._memtable.rows]
        again = EntryNumbers()
        wrong = again.restore(columns, self._held.used(), self._held.dropped())
        if wrong or (again.live, again.dead) != (self._held.live, self._held.dead):
            raise StateDamaged(f"segments and memtable do not fit together: {wrong or 'counts'}", START_OVER)

    def live_entries(self) -> Iterator[tuple[NDArray[np.uint32], KeyColumns, NDArray[np.int64]]]:
        """All that answer queries, part by part: numbers (n,), keys, buckets (n,). For checks: 0.1 us an entry."""
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
        """Bytes held, in memory or mapped: "tables", "sketches", "rows", "memtable", "released"."""
        sizes = {"tables": 0, "sketches": 0, "rows": 0}
        for segment in self._shelf.segments.values():
            for part, size in segment.nbytes().items():
                sizes[part] += size
        return {**sizes, "memtable": self._memtable.nbytes(), "released": self._held.nbytes()}

    def by_table(self) -> dict[str, TableSize]:
        """What each table holds in all segments together; segments may have different numbers of tables."""
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


def join(
    queries: KeyColumns,
    others: KeyColumns,
    limits: MatchLimits,
    short: MatchLimits | None = None,
    limit: int = 1_000_000,
) -> Matches:
    """The matches of queries (n,) among other keys (m,), by the index's rule; `entry` is the place in `others`.

    All `bucket`s are 0. For batches: everything is compared with everything, 0.1 ns a pair. `limit` as for
    `Index.query`.
    Errors: SettingsError for limits out of range, ValueError for shapes that do not fit.
    """
    return _join(MatchRule(queries.sketches.shape[1], limits, short), queries, others, limit, in_order=True)


def _join(rule: MatchRule, queries: KeyColumns, others: KeyColumns, limit: int, in_order: bool) -> Matches:
    asked, known = (
        rule.shaped(k.fingerprints, k.sketches, k.short if len(k.short) else None) for k in (queries, others)
    )
    count = len(known.fingerprints)
    memtable = Memtable(count, rule.sketch_words, rule.limits.distance)
    memtable.append(FreshEntries.of_keys(np.arange(count, dtype=np.uint32), known, None))
    nobody = np.zeros((count >> 6) + 1, np.uint64)
    return answer([memtable], nobody, rule, asked, limit, in_order)[0]
